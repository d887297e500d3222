"""Steers a running cluster, for tests, the control address and the command line.

`ClusterControl` (cluster_control.py) steers `Roles`: processes here, threads in `pocketmq.testing`.
"""
