"""The HTTP server of a continuous run's health and metrics, on loopback unless the operator gives another address."""

import socket
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address
from threading import Timer
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Metric, generate_latest, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.machine import ADDRESS, NAMES, host_name
from keyfold.runs.health import Health
from keyfold.runs.metrics import MEANING, Samples, answer_of, metrics_of

EXCHANGE_SECONDS = 10.0
"""Seconds that a request and its answer may take."""


def metrics_server(address: str, look: Callable[[], Health]) -> WSGIServer:
    """Build the server, which listens; the caller lets it serve.

    Args:
        address: a port of loopback, or an IPv4 address and a port.
        look: called for each request.

    Raises:
        KeyfoldError: the address is not valid, or is taken.
    """
    host, _, port = address.rpartition(":")
    try:
        bound, number = IPv4Address(host or ADDRESS), int(port)
        return make_server(str(bound), number, _application(look, bound.is_loopback), _Server, _Handler)
    except ValueError:
        raise Misconfigured(f"metrics cannot be served at {address!r}: give PORT or ADDRESS:PORT") from None
    except (OSError, OverflowError) as error:
        raise Misconfigured(f"metrics cannot be served at {address}: {error}; choose another port") from None


def metrics_text(samples: Samples) -> bytes:
    """Return samples in the text format of Prometheus."""
    return generate_latest(_registry(lambda: samples))


class _Metrics(Collector):
    def __init__(self, samples: Callable[[], Samples]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        samples = self._samples()
        for name in dict.fromkeys(name for name, _, _ in samples):
            kind = "counter" if name.endswith("_total") else "gauge"
            metric = Metric(name.removesuffix("_total"), MEANING[name], kind)
            for _, labels, value in (sample for sample in samples if sample[0] == name):
                metric.add_sample(name, labels, value)
            yield metric


def _registry(samples: Callable[[], Samples]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Metrics(samples))
    return registry


def _application(look: Callable[[], Health], is_loopback: bool) -> Callable[..., Iterable[bytes]]:
    metrics = make_wsgi_app(_registry(lambda: metrics_of(look())))

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        # A page in a browser whose own name leads to 127.0.0.1 (DNS rebinding) could read the answers.
        if is_loopback and host_name(environ.get("HTTP_HOST", "")) not in NAMES:
            status, text = "403 Forbidden", f"served to loopback alone: ask for it at {ADDRESS}"
        elif environ["PATH_INFO"] not in ("/health", "/metrics"):
            status, text = "404 Not Found", "there is /health and /metrics"
        else:
            try:
                if environ["PATH_INFO"] == "/metrics":
                    return metrics(environ, start)
                status, text = answer_of(look())
            except (KeyfoldError, OSError) as error:
                status, text = "500 Internal Server Error", str(error)
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return answer


class _Server(ThreadingWSGIServer):
    # Not 5: callers beyond it would try again after seconds.
    request_queue_size = 128

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # Of a whole exchange: a socket's own timeout begins anew with each byte.
        deadline = Timer(EXCHANGE_SECONDS, request.shutdown, (socket.SHUT_RDWR,))
        deadline.daemon = True
        deadline.start()
        super().process_request_thread(request, client_address)
        deadline.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: an error here means that the caller has closed the connection."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: each scrape of metrics would add a line."""
