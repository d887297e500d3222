"""Time that is moved by hand: one clock, and several that move together.

Read `manual_clock.py` first, then `lock_step.py`. `pocketmq.runtime.clock` is the seam that both
fill; nothing outside tests and `pocketmq clock` needs this folder.
"""
