"""A client for the checks of packaging."""

import socket
import struct


class Refused(Exception):
    """A statement has failed."""


class Client:
    """One connection that speaks just enough of CQL 4."""

    def __init__(self, address, name=None, password=None, timeout=60, received=None, tls=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if received:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
        self.socket.settimeout(timeout)
        self.socket.connect((host, int(port)))
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        opcode, _ = self.ask(1, struct.pack(">H", 1) + text("CQL_VERSION") + text("3.0.0"))
        if opcode == 3:
            token = b"\0" + name.encode() + b"\0" + password.encode()
            opcode, _ = self.ask(15, struct.pack(">i", len(token)) + token)
        self.greeted = opcode in (2, 16)

    def send(self, opcode, body):
        self.socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)

    def ask(self, opcode, body):
        self.send(opcode, body)
        _, _, _, opcode, length = struct.unpack(">BBhBi", self.exactly(9))
        return opcode, self.exactly(length)

    def exactly(self, length):
        found = b""
        while len(found) < length:
            more = self.socket.recv(length - len(found))
            if not more:
                raise ConnectionError("closed")
            found += more
        return found

    def query(self, statement, consistency=1, ask=True):
        """Whether it succeeds."""
        body = struct.pack(">i", len(statement)) + statement.encode() + struct.pack(">HB", consistency, 0)
        if not ask:
            return self.send(7, body)
        opcode, answer = self.ask(7, body)
        self.last = answer
        return opcode == 8

    def must(self, statement, consistency=1):
        if not self.query(statement, consistency):
            raise Refused(f"{statement}: {self.last[:300]}")

    def close(self):
        self.socket.close()


def text(value):
    return struct.pack(">H", len(value)) + value.encode()
