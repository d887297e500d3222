"""Faults by rule: declared once, counted and drawn by a seed, met at the network and disk seams."""
