"""A server on loopback that says exactly the bytes it is told, and a certificate for it."""

import contextlib
import datetime as dt
import socket
import ssl
import threading


class RawServer:
    """Answers each connection with the next reply of its script; the last one again and again.

    A reply is an iterable: bytes are sent, a number is a pause in seconds. `requests` are what was asked,
    `sent` counts bytes, `names` are what TLS was asked for.
    """

    def __init__(self, *replies, cert=None):
        self.replies = list(replies)
        self.requests = []
        self.names = []
        self.sent = 0
        self._context = None
        if cert is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(cert)
            self._context.sni_callback = lambda _sock, name, _context: self.names.append(name)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._closed = threading.Event()
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._closed.set()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join(10)
        self._socket.close()

    def _serve(self):
        while True:
            connection, _ = self._socket.accept()
            if self._closed.is_set():
                connection.close()
                return
            with contextlib.suppress(OSError), connection:
                if self._context is not None:
                    connection = self._context.wrap_socket(connection, server_side=True)
                with connection:
                    self._answer(connection)

    def _answer(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return
            data += chunk
        self.requests.append(data.decode())
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        for part in reply:
            if self._closed.is_set():
                return
            if isinstance(part, (int, float)):
                self._closed.wait(part)
            else:
                connection.sendall(part)
                self.sent += len(part)


def http(body=b"", status="200 OK", **headers):
    """A whole answer, as one reply."""
    lines = [f"HTTP/1.1 {status}", *(f"{n.replace('_', '-')}: {v}" for n, v in headers.items())]
    if "content_length" not in headers and "transfer_encoding" not in headers:
        lines.append(f"content-length: {len(body)}")
    return ["\r\n".join([*lines, "", ""]).encode("latin-1") + body]


def moved(location, status="302 Found"):
    return http(status=status, location=location)


def certificate(folder, name):
    """A self-signed certificate and its key for `name`, in one PEM file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path
