"""Structured bodies, each declared once (E-60); `codec` carries them as JSON or msgpack."""
