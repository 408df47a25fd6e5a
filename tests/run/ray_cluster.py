"""Two Ray nodes on the loopback, with one CPU each, and a server for Ray's client, until standard input ends.

Prints the addresses of both. A line on standard input kills the second node as a failure of its machine would.
"""

import os
import socket
import subprocess
import sys

from ray.cluster_utils import Cluster

small = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=small)
second = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
cluster.wait_for_nodes()


def bound(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# Below the range of ephemeral ports, and above the ports of Ray's workers.
port = next(port for port in range(21_000 + os.getpid() % 10_000, 32_000) if bound(port))
where = ["--host", "127.0.0.1", "--port", str(port), "--address", cluster.address]
client = subprocess.Popen(
    [sys.executable, "-m", "ray.util.client.server", *where],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
sys.stdout.write(f"address {cluster.address} 127.0.0.1:{port}\n")
sys.stdout.flush()
for _ in sys.stdin:
    cluster.remove_node(second, allow_graceful=False)
    sys.stdout.write("lost\n")
    sys.stdout.flush()
client.terminate()
client.wait()
cluster.shutdown()
