"""The scale that keeps small gradients above float16's smallest numbers: the rule of torch's ``GradScaler``.

Source: "Mixed Precision Training" (Micikevicius et al., 2018), section 3.2; defaults of ``torch.amp.GradScaler``.
"""

from dataclasses import dataclass


@dataclass
class LossScaler:
    """What the loss is multiplied by, and when that changes.

    Attributes:
        scale: The factor of the next step. A power of two stays one, so that scaling rounds nothing.
        growth_interval: After as many steps in a row without overflow the scale is doubled; an overflow halves it.
        num_good_steps: Steps without overflow since the scale last changed.
        num_skipped: Steps that were skipped, for an overflow, since training began.
    """

    scale: float = 2.0**16
    growth_interval: int = 2000
    num_good_steps: int = 0
    num_skipped: int = 0

    def update(self, has_overflowed: bool) -> None:
        """Count a step. To be called on all ranks, with the same answer: that of the averaged gradients."""
        if has_overflowed:
            self.scale, self.num_good_steps, self.num_skipped = self.scale / 2, 0, self.num_skipped + 1
            return
        self.num_good_steps += 1
        if self.num_good_steps == self.growth_interval:
            self.scale, self.num_good_steps = self.scale * 2, 0
