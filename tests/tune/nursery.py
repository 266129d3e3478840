"""A script that forks one tuning run after another, for tests that kill them.

Everything is imported once, here, so that a run takes tenths of a second. A line on standard input
is the arguments of ``autosched`` as JSON; the answer is the number of the process that runs them.
It is reaped only at the next line, ``reap``, which is answered with its wait status: until then
its number is nobody else's. The device is a fake that takes a model's times; after every sync of
a log its size is left in the file that the first argument names.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from autosched import assemble
from autosched.cli.main import main
from measure import log
from measure.disk import Disk
from measure.fake_device import FakeDevice
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

for name in ("autosched.cli.tune_command", "cost_model.xgboost_model", "xgboost"):
    importlib.import_module(name)

ACKNOWLEDGED = Path(sys.argv[1])


class Acknowledging(Disk):
    """The real disk; says what is synced."""

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        size = f"{self.size(descriptor):12}".encode()
        said = os.open(ACKNOWLEDGED, os.O_WRONLY | os.O_CREAT)
        os.pwrite(said, size, 0)
        os.close(said)


def fake_service(
    workload: Workload, target: Target, device: str, *, predict: Callable[[Program], float], **_
) -> FakeDevice:
    return FakeDevice(predict, predicted=True, target_name=target.name)


def run(arguments: list[str]) -> int:
    silent = os.open(os.devnull, os.O_RDWR)
    os.dup2(silent, 0)
    os.dup2(silent, 1)
    try:
        main(arguments)
    except SystemExit as error:
        return int(error.code or 0)


assemble.open_service = fake_service
log.Disk = Acknowledging
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os._exit(run(json.loads(line)))
    print(child, flush=True)
    assert sys.stdin.readline() == "reap\n"
    _, status = os.waitpid(child, 0)
    print(status, flush=True)
