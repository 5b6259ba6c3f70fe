"""`web_fetch` against real servers on loopback, as bad as they come. Nothing here needs a network."""

import asyncio
import gzip
import itertools
import socket
import ssl
import threading
import time
import tracemalloc
import zlib

import pytest
from web_server import RawServer, certificate, http, moved

from halo.tools.base import ToolFailure
from halo.tools.web_fetch import fetch


@pytest.fixture
def serve():
    servers = []

    def start(*replies, **options):
        servers.append(RawServer(*replies, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def names(**known):
    """A resolver that knows these names (`_` for `.`); what it was asked is in its `asked`."""

    async def resolve(host, port):
        resolve.asked.append(host)
        answer = known.get(host.removesuffix(".").replace(".", "_"))
        if answer is None:
            raise OSError("unknown")
        return answer.pop(0) if isinstance(answer[0], list) else answer

    resolve.asked = []
    return resolve


def get(url, headers=None, opened=("127.0.0.1",), **more):
    return asyncio.run(fetch(url, headers or {}, frozenset(opened), **more))


def refusal(url, headers=None, **more):
    with pytest.raises(ToolFailure) as failure:
        get(url, headers, **more)
    assert len(str(failure.value)) < 800
    assert "\n" not in str(failure.value)
    return str(failure.value)


# results


def test_status_type_and_text(serve):
    server = serve(http(b"hello\n", content_type="text/plain; charset=utf-8"))
    assert get(f"{server.url}/a?b=c#d") == "Status: 200\nContent-Type: text/plain; charset=utf-8\n\nhello\n"
    line, *headers = server.requests[0].split("\r\n")
    assert line == "GET /a?b=c HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.port}" in headers
    assert not any(h.lower().startswith(("cookie", "authorization", "referer")) for h in headers)


def test_an_answer_of_any_status_is_a_result(serve):
    assert get(serve(http(b"gone", "410 Gone", content_type="text/plain")).url).endswith(
        "410\nContent-Type: text/plain\n\ngone"
    )
    assert get(serve(http(status="204 No Content")).url) == "Status: 204\nContent-Type: not given\n\n"


def test_html_comes_as_it_is(serve):
    page = b"<!doctype html><title>x</title><p>y &amp; z"
    assert get(serve(http(page, content_type="text/html")).url).endswith("\n\n" + page.decode())


def test_headers_are_sent_and_some_are_refused(serve):
    server = serve(http(b"x", content_type="text/plain"))
    get(server.url, {"accept": "application/json", "X-Key": "k"})
    assert "Accept: application/json" in server.requests[0]
    assert "Accept: */*" not in server.requests[0]
    assert "X-Key: k" in server.requests[0]
    for name in (
        "Host",
        "connection",
        "Transfer-Encoding",
        "CONTENT-LENGTH",
        "TE",
        "Upgrade",
        "Accept-Encoding",
    ):
        assert "leave it out" in refusal(server.url, {name: "x"})
    for name, value in (
        ("X y", "z"),
        ("X", "y\r\nHost: evil"),
        ("X\n", "y"),
        ("", "y"),
        ("X", "ü"),
        ("X", "\0"),
    ):
        assert "no header" in refusal(server.url, {name: value})
    assert "too long" in refusal(server.url, {"X": "y" * 9000})
    assert len(server.requests) == 1


# bounds


def test_a_long_text_is_cut_and_says_so(serve):
    server = serve(http(b"x" * 60_000, content_type="text/plain"))
    text = get(server.url)
    assert text.endswith("x\n... [cut: only the first 50 KiB were fetched]")
    assert text.count("x") == 50 * 1024 + 1  # one in "text/plain"


def test_exactly_the_cap_is_not_cut(serve):
    assert "cut" not in get(serve(http(b"x" * 51_200, content_type="text/plain")).url)


def test_the_model_gets_all_of_it(bench, serve):
    """The longest result of other tools is shorter, and says how to ask for less: here there is no less."""
    bench.around = bench.around._replace(private_hosts=frozenset({"127.0.0.1"}))
    bench.toolbox._around = bench.around
    text = bench.text("web_fetch", url=serve(http(b"x" * 60_000, content_type="text/plain")).url)
    assert text.count("x") == 50 * 1024 + 1


def test_an_endless_body_ends(serve):
    server = serve(
        itertools.chain(
            http(content_type="text/plain", content_length=10**12), itertools.repeat(b"x" * 65536)
        )
    )
    started = time.monotonic()
    assert get(server.url).endswith("were fetched]")
    assert time.monotonic() - started < 5
    assert server.sent < 8 * 1024 * 1024  # what the system had buffered


def test_slow_bytes_end_at_the_limit(serve):
    server = serve(
        itertools.chain(http(content_type="text/plain", content_length=10**6), itertools.cycle([b"x", 0.1]))
    )
    started = time.monotonic()
    assert refusal(server.url, seconds=1.0) == f"{server.url} was not fetched within 1 seconds"
    assert time.monotonic() - started < 3


def test_a_server_that_says_nothing_and_a_resolver_that_hangs(serve):
    async def never(host, port):
        await asyncio.sleep(60)

    assert "within 0.5 seconds" in refusal(serve([30]).url, seconds=0.5)
    assert "within 0.5 seconds" in refusal("http://site.test/", seconds=0.5, resolve=never)


def test_cancelling_ends_it_at_once(serve):
    server = serve(
        itertools.chain(http(content_type="text/plain", content_length=10**6), itertools.cycle([b"x", 0.1]))
    )

    async def interrupted():
        task = asyncio.create_task(fetch(server.url, {}, {"127.0.0.1"}))
        await asyncio.sleep(0.5)
        task.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(interrupted()) < 1


def test_a_gzip_bomb_is_unpacked_no_further_than_is_wanted(serve):
    bomb = gzip.compress(bytes(200 * 1024 * 1024), 9)
    server = serve(http(bomb.replace(b"", b""), content_type="text/plain", content_encoding="gzip"))
    tracemalloc.start()
    try:
        text = get(server.url)
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert text.endswith("that are no text; they are not shown)")  # zeros


def test_what_unpacks_to_nothing_ends(serve):
    """An empty block of deflate, again and again: no text ever comes."""
    packer = zlib.compressobj(wbits=31)
    nothing = packer.flush(zlib.Z_FULL_FLUSH) + packer.flush(zlib.Z_FULL_FLUSH) + b"\0\0\0\xff\xff" * 4096
    rest = itertools.repeat(b"\0\0\0\xff\xff" * 4096)
    server = serve(
        itertools.chain(
            http(content_type="text/plain", content_encoding="gzip", content_length=10**12), [nothing], rest
        )
    )
    assert get(server.url).endswith("text/plain\n\n\n... [cut: only the first 50 KiB were fetched]")


def test_gzip_is_unpacked_and_damage_is_told(serve):
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    plain = {"content_type": "text/plain", "content_encoding": "gzip"}
    assert get(serve(http(packed, **plain)).url).endswith("\n\none two")
    assert "breaks off" in refusal(serve(http(packed[:10], **plain)).url)
    assert "cannot be unpacked" in refusal(serve(http(b"not packed", **plain)).url)
    assert "packed as gzip, gzip" in refusal(serve(http(b"x", content_encoding="gzip, gzip")).url)
    assert "packed as br" in refusal(serve(http(b"x", content_encoding="br")).url)


def test_huge_headers_are_an_answer(serve):
    server = serve([b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000 + b"\r\n\r\n"])
    assert "could not be fetched" in refusal(server.url)
    server = serve([b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000 + b"\r\n"])
    assert "could not be fetched" in refusal(server.url)
    text = get(serve(http(b"x", content_type="text/plain; " + "a" * 5000)).url)
    assert len(text) < 300


@pytest.mark.parametrize(
    "said",
    [
        [b""],
        [b"HTTP/1.1 200"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n"],
        [b"SSH-2.0-OpenSSH_9.2\r\n"],
        [b"\x16\x03\x01\0\xa5\1"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!"],
    ],
)
def test_a_connection_that_breaks_off_or_talks_nonsense(serve, said):
    assert "broke off" in refusal(serve(said).url)


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert "cannot be reached" in refusal(f"http://127.0.0.1:{port}/")


# charsets


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("naïve".encode(), "text/plain", "naïve"),
        ("naïve".encode("latin-1"), "text/plain", "naïve"),
        ("naïve".encode("latin-1"), "text/plain; charset=ISO-8859-1", "naïve"),
        ("“x”".encode("cp1252"), "text/html; charset=latin1", "“x”"),
        ("naïve".encode("latin-1"), "text/plain; charset=utf-8", "na\ufffdve"),
        ("naïve".encode(), "text/plain; charset=nonsense", "naïve"),
        ("naïve".encode(), "text/plain; charset=zip", "naïve"),
        (b"+ADw-", "text/plain; charset=utf-7", "+ADw-"),
        ("Öl".encode("utf-16"), "text/plain", "Öl"),
        ("Öl".encode("utf-8-sig"), "text/plain; charset=latin1", "Öl"),
        ("привет".encode("koi8-r"), 'text/plain; charset="koi8-r"', "привет"),
        ('<meta charset="shift_jis">日本'.encode("shift_jis"), "text/html", '<meta charset="shift_jis">日本'),
        (
            "<?xml version='1.0' encoding='windows-1251'?>да".encode("cp1251"),
            "text/xml",
            "<?xml version='1.0' encoding='windows-1251'?>да",
        ),
        ('{"a": "ü"}'.encode(), "application/vnd.x+json", '{"a": "ü"}'),
        (b"plain enough", "application/octet-stream", "plain enough"),
        (b"no type", "", "no type"),
    ],
)
def test_charsets(serve, body, content_type, text):
    assert get(serve(http(body, content_type=content_type)).url).split("\n\n", 1)[1] == text


def test_a_cut_within_a_character_leaves_none_broken(serve):
    text = get(serve(http(b"x" + "é".encode() * 30_000, content_type="text/plain")).url)
    assert "\ufffd" not in text
    assert "é\n... [cut" in text


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "application/pdf"),
        (b"PK\x03\x04\0", ""),
        (b"a\0b", "text/plain"),
        (b"caf\xe9 \x01\x02", "application/octet-stream"),
    ],
)
def test_what_is_no_text_is_named_and_not_shown(serve, body, content_type):
    text = get(serve(http(body, content_type=content_type)).url)
    assert text.endswith(f"\n\n({len(body)} bytes that are no text; they are not shown)")


# addresses


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://x.test/", "not an http or https URL"),
        ("file:///etc/passwd", "not an http or https URL"),
        ("x.test", "not an http or https URL"),
        ("//x.test/", "not an http or https URL"),
        ("javascript:alert(1)", "not an http or https URL"),
        ("http://user:pw@x.test/", "user name or password"),
        ("http://good.test\\@evil.test/", "user name or password"),
        ("http:///x", "names no host"),
        ("http://a b/", "names no host"),
        ("http://%31%32%37.0.0.1/", "names no host"),
        ("http://[fe80::1%25eth0]/", "names no host"),
        ("http://x.test:0/", "names no host"),
        ("http://x.test:99999/", "names no host"),
        ("http://x.test/\n", "is no URL"),
        ("http://[::1", "is no URL"),
        ("http://x.test:port/", "is no URL"),
        ("http://x.test/" + "a" * 9000, "too long"),
    ],
)
def test_urls_that_are_none(url, said):
    assert said in refusal(url)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0"),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *("10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "[fd00::1]", "[fe80::1]", "224.0.0.1"),
        *(
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "255.255.255.255",
            "LOCALHOST.",
            "[::127.0.0.1]",
        ),
    ],
)
def test_private_hosts_are_not_asked(host, serve):
    server = serve(http(b"secret", content_type="text/plain"))
    said = refusal(f"http://{host}:{server.port}/", opened=())
    assert any(reason in said for reason in ("not on the public internet", "is not known", "is no URL"))
    assert server.requests == []


def test_one_private_address_of_several_is_enough(serve):
    server = serve(http(b"secret"))
    resolve = names(site_test=["93.184.216.34", "127.0.0.1"])
    assert "not on the public internet" in refusal(
        f"http://site.test:{server.port}/", opened=(), resolve=resolve
    )
    assert server.requests == []


@pytest.mark.parametrize("opened", ["site.test", "SITE.test.", "site.test:{port}"])
def test_the_user_opens_a_host_by_name_or_with_its_port(serve, opened):
    server = serve(http(b"inside", content_type="text/plain"))
    url = f"http://site.test:{server.port}/"
    opened = [opened.format(port=server.port)]
    assert get(url, opened=opened, resolve=names(site_test=["127.0.0.1"])).endswith("inside")
    for other in ("http://127.0.0.1:{port}/", "http://other.test:{port}/", "http://localhost:{port}/"):
        resolve = names(other_test=["127.0.0.1"], localhost=["127.0.0.1"], **{"127_0_0_1": ["127.0.0.1"]})
        assert "not on the public" in refusal(other.format(port=server.port), opened=opened, resolve=resolve)
    assert len(server.requests) == 1


def test_another_port_of_an_opened_one_is_closed(serve):
    server = serve(http(b"x"))
    assert "not on the public" in refusal(server.url, opened=["127.0.0.1:1"])


def test_a_name_is_looked_up_once(serve, monkeypatch):
    """A second look-up could give another address than the one that was checked."""
    server = serve(http(b"first", content_type="text/plain"))
    resolve = names(site_test=[["127.0.0.1"], ["127.0.0.2"]])
    asked = []
    known = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *more, **named: asked.append(host) or known(host, *more, **named)
    )
    url = f"http://site.test:{server.port}/"
    assert get(url, opened=["site.test"], resolve=resolve).endswith("first")
    assert resolve.asked == ["site.test"]
    assert "site.test" not in asked
    assert f"Host: site.test:{server.port}" in server.requests[0]


def test_a_name_that_becomes_private_on_the_way(serve):
    """The page redirects to its own name, which leads elsewhere by then."""
    server = serve(moved("http://site.test:1/next"))
    resolve = names(site_test=[["127.0.0.1"], ["127.0.0.1"]])
    said = refusal(f"http://site.test:{server.port}/", opened=[f"site.test:{server.port}"], resolve=resolve)
    assert "not on the public" in said
    assert resolve.asked == ["site.test", "site.test"]


def test_the_next_address_is_tried_when_one_takes_no_connection(serve):
    server = serve(http(b"here", content_type="text/plain"))
    resolve = names(site_test=["127.0.0.9", "127.0.0.1"])
    assert get(f"http://site.test:{server.port}/", opened=["site.test"], resolve=resolve).endswith("here")


def test_an_unknown_name():
    assert refusal("http://nowhere.test/", resolve=names()) == "the host nowhere.test is not known"


def test_proxies_of_the_environment_are_not_used(serve, monkeypatch):
    proxy, server = serve(http(b"proxy")), serve(http(b"direct", content_type="text/plain"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert get(server.url).endswith("direct")
    assert proxy.requests == []


# redirects


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Same", "308 Same"])
def test_redirects_are_followed_and_named(serve, status):
    server = serve(moved("/there", status), http(b"there", content_type="text/plain"))
    assert get(f"{server.url}/here") == (
        f"Status: 200\nContent-Type: text/plain\nRedirected to: {server.url}/there\n\nthere"
    )


def test_a_redirect_loop_ends(serve):
    server = serve(moved("/again"))
    assert "redirects more than 5 times" in refusal(server.url)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost:1/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "http://user:pw@127.0.0.1/",
        "http://[::ffff:10.0.0.1]/",
        "http://[",
        "gopher://x/",
    ],
)
def test_a_redirect_to_what_may_not_be_fetched(serve, location):
    server = serve(moved(location), http(b"secret"))
    refusal(server.url, opened=[f"127.0.0.1:{server.port}"])
    assert len(server.requests) == 1


def test_a_redirect_without_an_address_is_a_result(serve):
    assert get(serve(http(b"x", "302 Found", content_type="text/plain")).url).startswith("Status: 302")


def test_keys_do_not_go_to_another_origin(serve):
    other = serve(http(b"x", content_type="text/plain"))
    first = serve(moved("/same"), moved(f"{other.url}/other"))
    get(first.url, {"Authorization": "Bearer k", "X-Key": "k", "Cookie": "k", "Accept": "text/plain"})
    assert [request.count(" k\r\n") for request in (*first.requests, *other.requests)] == [3, 3, 0]
    assert "Bearer" in first.requests[1]
    assert "Bearer" not in other.requests[0]
    assert "Accept: text/plain" in other.requests[0]


def test_cookies_are_not_kept(serve):
    server = serve(
        http(status="302 Found", location="/next", set_cookie="a=b"), http(b"x", content_type="text/plain")
    )
    get(server.url)
    assert "cookie" not in server.requests[1].lower()


# TLS


@pytest.fixture
def cert(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    path = certificate(tmp_path, "site.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


def test_tls_checks_the_name_and_not_the_address(serve, cert):
    server = serve(http(b"sealed", content_type="text/plain"), cert=cert)
    resolve = names(site_test=["127.0.0.1"], other_test=["127.0.0.1"])
    for host in ("site.test", "site.test."):
        assert get(f"https://{host}:{server.port}/", opened=["site.test"], resolve=resolve).endswith("sealed")
    assert server.names == ["site.test", "site.test"]
    said = refusal(f"https://other.test:{server.port}/", opened=["other.test"], resolve=resolve)
    assert "certificate is not accepted" in said
    assert "certificate is not accepted" in refusal(f"https://127.0.0.1:{server.port}/")


def test_an_authority_that_nobody_knows(serve, cert, monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate(tmp_path, "stranger.test")))
    server = serve(http(b"x"), cert=cert)
    resolve = names(site_test=["127.0.0.1"])
    assert "certificate" in refusal(
        f"https://site.test:{server.port}/", opened=["site.test"], resolve=resolve
    )


def test_two_names_at_one_address_are_each_looked_at(serve, cert):
    """A connection that is kept is known by its address: the next name would go unchecked over it."""
    server = serve(moved("https://other.test:{}/"), cert=cert)
    server.replies = [moved(f"https://other.test:{server.port}/"), http(b"x")]
    resolve = names(site_test=["127.0.0.1"], other_test=["127.0.0.1"])
    said = refusal(f"https://site.test:{server.port}/", opened=["site.test", "other.test"], resolve=resolve)
    assert "certificate is not accepted" in said


@pytest.fixture
def authorities(monkeypatch):
    """Loading authorities takes as long as the event loop needs to look in, three seconds at most.

    `authorities.free` says of each loading whether it did.
    """
    began, looked_in = threading.Event(), threading.Event()
    load = ssl.SSLContext.load_verify_locations

    def slowly(context, *args, **named):
        began.set()
        heartbeat.free.append(looked_in.wait(3))
        return load(context, *args, **named)

    async def heartbeat():
        while not began.is_set():  # it is set by another thread
            await asyncio.sleep(0.005)
        looked_in.set()

    heartbeat.free = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", slowly)
    return heartbeat


def test_the_event_loop_goes_on_while_authorities_are_loaded(serve, cert, authorities):
    server = serve(http(b"sealed", content_type="text/plain"), cert=cert)
    page = f"https://site.test:{server.port}/"

    async def go():
        beating = asyncio.create_task(authorities())
        fetched = await fetch(page, {}, ["site.test"], names(site_test=["127.0.0.1"]))
        await asyncio.wait_for(beating, 5)
        return fetched

    assert asyncio.run(go()).endswith("sealed")
    assert authorities.free == [True]


def test_without_tls_no_authorities_are_loaded(serve, authorities):
    assert get(serve(http(b"open", content_type="text/plain")).url).endswith("open")
    assert authorities.free == []
