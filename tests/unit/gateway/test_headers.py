"""What passes the gateway."""

from typing import Any

from tgpu.gateway.headers import caller_of, of_a_read, page_key, to_caller, to_service


def a_scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"scheme": "http", "client": ("192.0.2.1", 4711), "headers": list(headers)}


def test_claims_of_the_caller_about_its_address_are_replaced_by_what_was_seen() -> None:
    scope = a_scope((b"x-forwarded-for", b"198.51.100.7"), (b"forwarded", b"for=198.51.100.7"))
    passed = to_service(scope, caller_of(scope))
    assert passed == [(b"x-forwarded-for", b"192.0.2.1"), (b"x-forwarded-proto", b"http")]


def test_what_is_about_one_connection_is_not_passed_on() -> None:
    scope = a_scope(
        (b"connection", b"keep-alive, X-Own"), (b"x-own", b"1"), (b"te", b"trailers"), (b"a", b"b")
    )
    assert to_service(scope, caller_of(scope))[:1] == [(b"a", b"b")]
    assert to_caller([(b"Transfer-Encoding", b"chunked"), (b"A", b"b")]) == [(b"a", b"b")]


def test_credentials_are_passed_on_and_tell_callers_apart() -> None:
    ann, bob = (a_scope((b"authorization", b"Bearer " + key)) for key in (b"ann", b"bob"))
    assert (b"authorization", b"Bearer ann") in of_a_read(ann, caller_of(ann))
    digests = {caller_of(scope).digest for scope in (ann, bob, a_scope())}
    assert len(digests) == 3
    assert "ann" not in caller_of(ann).digest


def test_two_headers_cannot_be_taken_for_one() -> None:
    one = a_scope((b"x-api-key", b"ab"))
    two = a_scope((b"x-api-key", b"a"), (b"x-api-key", b"b"))
    assert caller_of(one).digest != caller_of(two).digest


def test_gateways_on_other_ports_share_answers_and_pages_of_others_do_not() -> None:
    def key(host: bytes, *origin: bytes) -> object:
        scope = a_scope((b"host", host), *((b"origin", each) for each in origin))
        return page_key(caller_of(scope))

    assert key(b"127.0.0.1:1") == key(b"127.0.0.1:2") == key(b"127.0.0.1")
    assert key(b"[::1]:1", b"http://[::1]:1") == key(b"[::1]:2", b"http://[::1]:2")
    different = [
        key(b"127.0.0.1:1"),
        key(b"rebound.example:1"),
        key(b"127.0.0.1:1", b"http://127.0.0.1:1"),
        key(b"127.0.0.1:1", b"http://127.0.0.1:2"),
        key(b"127.0.0.1:1", b"http://page.example"),
        key(b"127.0.0.1:1", b"http://127.0.0.1:1", b"http://page.example"),
    ]
    assert len(set(different)) == len(different)
