"""Three replicas and controllers in the simulation: `python scripts/simulate.py --replicas`.

plan.py       what a seed draws: kinds of trouble, then events; pure
schedules.py  scripted histories, each of which shows one known loss; pure
machines.py   replicas and controllers: disks that outlive processes, and production's classes
cluster.py    all machines of a run, and what happens to them
watch.py      looks after each step, and tells the ledgers of `invariants/replicas/`
run.py        runs one seed
"""
