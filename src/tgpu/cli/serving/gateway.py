"""The command `gateway`: an additional API process in front of a service."""

from pathlib import Path
from typing import Annotated

import typer

from tgpu.cli.failures import bad_input
from tgpu.cli.options import examples
from tgpu.cli.serving.command import Config, Host, Insecure, Level, Style

EPILOG = examples(
    "tgpu gateway --upstream http://127.0.0.1:8080",
    "tgpu gateway --upstream http://127.0.0.1:8080 --redis redis://127.0.0.1:6379/0 --port 8090",
    "tgpu gateway --upstream https://scheduler:8080 --config gateway.yaml --host 0.0.0.0",
)


def gateway(
    *,
    upstream: Annotated[
        str, typer.Option(metavar="URL", help="The scheduler: http://host:port, or https://.")
    ],
    redis: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Redis shared by all gateways: redis://host:6379/0."),
    ] = None,
    host: Host = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=1, max=65535, help="TCP port to listen on.")
    ] = 8090,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, help="Requests per second for each caller; 0: no limit."),
    ] = None,
    cache_seconds: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, max=60, help="How long reads are cached. Default: 1."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate (PEM) of the port.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of --tls-cert (PEM).")
    ] = None,
    config: Config = None,
    insecure_listen: Insecure = False,
    log_level: Level = None,
    log_format: Style = None,
) -> None:
    """Run an additional API process in front of a scheduler, for many readers.

    Reads come from a cache, all watchers of events share one subscription, and each caller's
    request rate is limited. With --redis all gateways share these. Everything else is passed
    through. Of the settings, `redis`, `limits` and `logging` are used. Ctrl-C stops it.

    If the scheduler requires authentication, an operator's key in TGPU_API_KEY lets the gateway
    follow the events for all.
    """
    from tgpu.settings import SettingsError, load_settings

    try:
        settings = load_settings(
            config,
            {
                "redis.url": redis,
                "redis.cache_seconds": cache_seconds,
                "limits.requests_per_second": rate,
                "logging.level": log_level.value.upper() if log_level else None,
                "logging.format": log_format.value if log_format else None,
            },
        )
    except SettingsError as error:
        raise bad_input(str(error), "`tgpu config-sample` prints all settings") from error
    from tgpu.connections.budget import connection_limits
    from tgpu.gateway.options import GatewayOptions
    from tgpu.gateway.serve import GatewayCannotServe, serve
    from tgpu.log import set_up_logging
    from tgpu.settings import process_environ

    set_up_logging(settings.logging)
    url = settings.redis.url
    try:
        serve(
            GatewayOptions(
                upstream=upstream,
                host=host or "127.0.0.1",
                port=port,
                redis_url=None if url is None else url.get_secret_value(),
                cache_seconds=settings.redis.cache_seconds,
                requests_per_second=settings.limits.requests_per_second,
                burst=settings.limits.burst,
                api_key=process_environ().get("TGPU_API_KEY") or None,
                insecure_listen=insecure_listen,
                tls_cert=tls_cert,
                tls_key=tls_key,
                shutdown_seconds=settings.api.shutdown_seconds,
                connections=connection_limits(settings.limits),
            )
        )
    except ValueError as error:
        raise bad_input(f"--upstream: {error}") from error
    except GatewayCannotServe as error:
        raise bad_input(str(error)) from error
