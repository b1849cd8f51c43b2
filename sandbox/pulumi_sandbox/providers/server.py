"""Run one sandbox provider as a plugin process, which ends with the engine that started it."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
from concurrent import futures
from importlib import import_module
from types import FrameType

import grpc
from gpu_common import linux
from pulumi.runtime.proto import provider_pb2_grpc

from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.engine_log import EngineLog, keep_log
from pulumi_sandbox.providers.protocol import Servicer
from pulumi_sandbox.providers.resource import Context
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

# The limit of the engine (pulumi/sdk v3.259.0, go/common/util/rpcutil/serve.go).
LARGEST_MESSAGE = 400 << 20
OPTIONS = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.max_send_message_length", LARGEST_MESSAGE)]
WORKERS = 64
LOOK_SECONDS = 1.0
GRACE_SECONDS = 2.0


def cloud_of(package: str) -> Cloud:
    """Return an instance of the one subclass of `Cloud` in providers/<package>/provider.py."""
    module = import_module(f"pulumi_sandbox.providers.{package}.provider")
    own = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Cloud)]
    (found,) = (one for one in own if one.__module__ == module.__name__ and getattr(one, "package", "") == package)
    return found()


class EngineWatch:
    """Waits for a signal or for the end of the engine."""

    def __init__(self, engine: str = "") -> None:
        self.over = False
        self.parent = os.getppid()
        self.engine = engine

    def watch(self) -> None:
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)
        # The kernel sends this signal when the *thread* that started us ends; the engine may still be running then.
        # The signal therefore only triggers a check. Without it, as on other systems, we check every second.
        signal.signal(signal.SIGUSR2, self._look)
        linux.signal_when_parent_ends(signal.SIGUSR2)
        while not self.over and not self.orphaned():
            if select.select([woken], [], [], LOOK_SECONDS)[0]:
                os.read(woken, 512)

    def orphaned(self) -> bool:
        if os.getppid() != self.parent:
            return True
        # The parent is process 1: the engine itself in a container, or init if the engine exited before the start.
        return self.parent == 1 and bool(self.engine) and not listens(self.engine)

    def _end(self, _: int, __: FrameType | None) -> None:
        self.over = True

    def _look(self, _: int, __: FrameType | None) -> None:
        """Do nothing. The signal has ended the wait, and the loop checks again."""


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=LOOK_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def start(servicer: Servicer) -> tuple[grpc.Server, int]:
    """Start the gRPC server. Return it and its port."""
    server = grpc.server(futures.ThreadPoolExecutor(WORKERS, thread_name_prefix="rpc"), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def serve(cloud: Cloud, engine: str = "") -> None:
    """Serve until the engine exits. The port is printed to standard output for the engine."""
    life = EngineWatch(engine)
    workspace = Workspace.find()
    keep_log(workspace.root / "logs" / f"{cloud.package}.log")
    threading.excepthook = lambda fault: logging.getLogger(__name__).error(
        "in thread %s", fault.thread and fault.thread.name, exc_info=fault.exc_value
    )
    log = EngineLog()
    log.attach(engine)
    context = Context(workspace, World(workspace.world), engine_gone=life.orphaned, log=log.say)
    cloud.context = context
    cloud.start(context)
    server, port = start(Servicer(cloud, context, log))
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    try:
        life.watch()
    finally:
        context.cancelled.set()
        server.stop(GRACE_SECONDS).wait()
        cloud.stop()
        log.close()
        context.world.close()
