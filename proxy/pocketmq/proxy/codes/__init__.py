"""Codes and sentences of answers, and which fault gets which (G-1, G-4, G-5). Pure."""
