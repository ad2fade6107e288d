"""The launchers of several nodes: how they find each other, and agree on how a job ends.

Each keeps one connection to node 0 (``connection.py``). They meet before any rank starts (``meeting.py``), and settle
which failure was first (``agreement.py``).
"""
