"""Two Ray nodes on the loopback, with one CPU each, until standard input ends. Prints the address."""

import sys

from ray.cluster_utils import Cluster

small = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=small)
cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
cluster.wait_for_nodes()
sys.stdout.write(f"address {cluster.address}\n")
sys.stdout.flush()
sys.stdin.read()
cluster.shutdown()
