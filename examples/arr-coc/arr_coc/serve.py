"""Serves predictions over HTTP, as a container of Vertex AI.

    AIP_STORAGE_URI=FOLDER_OR_gs://… python -m arr_coc.serve

Vertex AI sets the variables AIP_*: https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
"""

import argparse
import json
import os
import signal
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from . import storage
from .model import METRICS, WEIGHTS, TextureNet, load
from .textures import SIZE

MOST_BYTES = 10 * 2**20


class InvalidError(Exception):
    """The request has a mistake."""


def read_instances(body: bytes) -> torch.Tensor:
    """Return the images of a request. Raise InvalidError with all invalid instances."""
    try:
        instances = json.loads(body)["instances"]
    except (ValueError, TypeError, KeyError, RecursionError):
        instances = None
    if not isinstance(instances, list) or not instances:
        raise InvalidError('expected {"instances": [...]} with one instance or more')
    wrong = [f"instances[{at}]" for at, each in enumerate(instances) if not is_image(each)]
    if wrong:
        raise InvalidError(f"{', '.join(wrong)}: expected {SIZE} rows of {SIZE} numbers from 0 to 1")
    return torch.tensor(instances, dtype=torch.float32).unsqueeze(1)


def is_image(value: Any) -> bool:
    rows = value if has_size(value) else [None]
    return all(has_size(row) and all(type(each) in (int, float) and 0 <= each <= 1 for each in row) for row in rows)


def has_size(value: Any) -> bool:
    return isinstance(value, list) and len(value) == SIZE


def predict(model: TextureNet, labels: list[str], images: torch.Tensor) -> list[dict[str, Any]]:
    with torch.inference_mode():
        best = model(images).softmax(1).max(1)
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [{"label": labels[index], "probability": round(probability, 4)} for index, probability in pairs]


def server(host: str, port: int, model: TextureNet, labels: list[str]) -> ThreadingHTTPServer:
    """Return a server that listens, and waits for `serve_forever`."""
    health = os.environ.get("AIP_HEALTH_ROUTE", "/health")
    route = os.environ.get("AIP_PREDICT_ROUTE", "/predict")

    class Handler(BaseHTTPRequestHandler):
        timeout = 60  # of a client that sends nothing

        def do_GET(self) -> None:
            self.answer(*((200, {"status": "ok"}) if self.path == health else (404, {"error": f"expected {health}"})))

        def do_POST(self) -> None:
            if self.path != route:
                return self.answer(404, {"error": f"expected {route}"})
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > MOST_BYTES:
                return self.answer(413, {"error": f"expected a body with a Content-Length of at most {MOST_BYTES}"})
            try:
                images = read_instances(self.rfile.read(int(length)))
                return self.answer(200, {"predictions": predict(model, labels, images)})
            except InvalidError as error:
                return self.answer(400, {"error": str(error)})
            except Exception:
                traceback.print_exc()
                return self.answer(500, {"error": "internal error; see the log of the container"})

        def answer(self, status: int, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass  # Vertex AI has an access log of its own.

    class Server(ThreadingHTTPServer):
        daemon_threads = False  # so that the end waits for open requests
        request_queue_size = 128

    return Server((host, port), Handler)


def main() -> int:
    """Serve until SIGTERM, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m arr_coc.serve", description="Serve the classifier of textures.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 in a container")
    arguments = parser.parse_args()
    if not (address := os.environ.get("AIP_STORAGE_URI")):
        parser.error(f"AIP_STORAGE_URI: expected a folder, or gs://BUCKET/FOLDER, with {WEIGHTS} and {METRICS}")
    torch.set_num_threads(1)  # Several requests run at once.
    with storage.reading(address, [WEIGHTS, METRICS]) as folder:
        model, labels = load(folder)
    with server(arguments.host, int(os.environ.get("AIP_HTTP_PORT", "8080")), model, labels) as httpd:
        # shutdown waits for the loop of this thread, so another thread calls it.
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=httpd.shutdown).start())
        print(f"serving {address} at http://{arguments.host}:{httpd.server_port}", flush=True)
        httpd.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
