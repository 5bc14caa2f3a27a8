"""Stands in for a launcher that is not installed: starts processes and tells each what that one does."""

import os
import socket
import subprocess
import sys

NAMES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}
launcher, _, ranks, *command = sys.argv[1:]
environment = dict(os.environ)
with socket.create_server(("127.0.0.1", 0)) as store:
    if launcher == "torchrun":
        # Its own store waits at the port that it names.
        port = str(store.getsockname()[1])
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        command = [sys.executable, *command]
    started = []
    for rank in range(int(ranks)):
        given = dict(zip(NAMES[launcher], (str(rank), ranks, str(rank))))
        started.append(subprocess.Popen(command, env=environment | given))
    sys.exit(max(each.wait() for each in started))
