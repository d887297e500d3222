"""Figures for people and tools."""
