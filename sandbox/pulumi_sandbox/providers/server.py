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
from pulumi_sandbox.providers.engine_log import EngineLog, log_to_file
from pulumi_sandbox.providers.protocol import Servicer
from pulumi_sandbox.providers.resource import Context
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

# The limit of the engine (pulumi/sdk v3.259.0, go/common/util/rpcutil/serve.go).
LARGEST_MESSAGE = 400 << 20
OPTIONS = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.max_send_message_length", LARGEST_MESSAGE)]
WORKERS = 64
CHECK_SECONDS = 1.0
GRACE_SECONDS = 2.0


def cloud_of(package: str) -> Cloud:
    """Return an instance of the one subclass of `Cloud` in providers/<package>/provider.py."""
    module = import_module(f"pulumi_sandbox.providers.{package}.provider")
    classes = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Cloud)]
    (cloud_class,) = (
        one for one in classes if one.__module__ == module.__name__ and getattr(one, "package", "") == package
    )
    return cloud_class()


class EngineWatch:
    """Waits for a signal or for the end of the engine."""

    def __init__(self, engine: str = "") -> None:
        self.stop_requested = False
        self.parent = os.getppid()
        self.engine = engine

    def watch(self) -> None:
        wake_read_end, wake_write_end = os.pipe()
        os.set_blocking(wake_write_end, False)
        signal.set_wakeup_fd(wake_write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._request_stop)
        # The kernel sends this signal when the *thread* that started us ends; the engine may still be running then.
        # The signal therefore only triggers a check. Without it, as on other systems, we check every second.
        signal.signal(signal.SIGUSR2, self._wake)
        linux.signal_when_parent_ends(signal.SIGUSR2)
        while not self.stop_requested and not self.orphaned():
            if select.select([wake_read_end], [], [], CHECK_SECONDS)[0]:
                os.read(wake_read_end, 512)

    def orphaned(self) -> bool:
        if os.getppid() != self.parent:
            return True
        # The parent is process 1: the engine itself in a container, or init if the engine exited before the start.
        return self.parent == 1 and bool(self.engine) and not accepts_connections(self.engine)

    def _request_stop(self, _: int, __: FrameType | None) -> None:
        self.stop_requested = True

    def _wake(self, _: int, __: FrameType | None) -> None:
        """Do nothing. The signal has ended the wait, and the loop checks again."""


def accepts_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CHECK_SECONDS).close()
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
    engine_watch = EngineWatch(engine)
    workspace = Workspace.find()
    log_to_file(workspace.root / "logs" / f"{cloud.package}.log")
    threading.excepthook = lambda failure: logging.getLogger(__name__).error(
        "in thread %s", failure.thread and failure.thread.name, exc_info=failure.exc_value
    )
    log = EngineLog()
    log.attach(engine)
    context = Context(workspace, World(workspace.world), engine_gone=engine_watch.orphaned, log=log.say)
    cloud.context = context
    cloud.start(context)
    server, port = start(Servicer(cloud, context, log))
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    try:
        engine_watch.watch()
    finally:
        context.cancelled.set()
        server.stop(GRACE_SECONDS).wait()
        cloud.stop()
        log.close()
        context.world.close()
