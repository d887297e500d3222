"""What can be asked of a running cluster, whoever asks: tests, the control address, the console.

`ClusterControl` (control.py) steers `Roles`: processes here, threads in `pocketmq.testing`.
"""
