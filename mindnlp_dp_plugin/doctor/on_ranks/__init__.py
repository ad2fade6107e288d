"""Programs that the doctor starts as ranks. A folder of their own, as a script's folder leads its import path."""
