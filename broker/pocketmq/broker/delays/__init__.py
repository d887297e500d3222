"""Delay levels: storing delayed messages, and delivering them when due."""
