"""Replication: a master sends its log to slaves, and what decides who is master drives that.

    master   store -> HaService -> SlaveConnection ---- frames ---->  MasterConnection -> store
             Replicas  <- acks_moved  <---------------- reports ----  HaClient            slave

Start with `ha_frames.py` (the bytes), `ha_master.py` and `ha_slave.py` (the decisions; no I/O).
`role_changes.py` is what a controller's client drives; `core.role` (`broker/role.py`) says what the
broker is, and `core.role.while_leading(service)` has a service run on the master only.

For a controller's client, as a subject that gets `Replication` in its `assembly.py`:

    roles = replication.roles
    roles.fence()                              until the controller has answered: no puts
    roles.unfence()
    roles.progress                             epoch, end of log, confirm offset: for heartbeats
    await roles.become_master(epoch=3)         raises ValueError for an epoch that is over
    await roles.become_slave(2, MasterAddresses("10.0.0.1:10911", "10.0.0.1:10912"), epoch=3)
    roles.master_told(broker, replication)     the addresses became known later
    roles.epochs.table                         Epochs; `roles.epochs` keeps `epochFileCheckpoint`
    replication.slaves.connections             who follows: `.link.acked`, `.link.address`
    replication.slaves.acks_moved              Signal: a slave has more, has come or gone
    core.store.confirm(offset)                 consumers see no more than that (H-144)
    core.signals.role_changed                  Signal: a change is complete

Codecs of controller mode's stream are in `auto_switch_frames.py`, epochs in `epochs.py`.
"""
