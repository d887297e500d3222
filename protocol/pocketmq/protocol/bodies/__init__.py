"""Structured bodies, each declared once (wire sheet 6); `codec` carries them as JSON or msgpack."""
