"""A slave that acts for its master, in the simulation: `python scripts/simulate.py --acting`.

plan.py      what a seed draws; pure
machine.py   master and slave: disks that outlive processes, and production's broker
cluster.py   the pair, its nameserver and clients, and what happens to them
watch.py     looks after each step
run.py       runs one seed
"""
