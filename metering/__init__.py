"""Every byte on the wire: the paper's formulas, what was counted, and the way from one to the other."""
