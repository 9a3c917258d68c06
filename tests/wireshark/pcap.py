"""Captures for the tests of the dissector: pcap files with TCP connections over Ethernet and IPv4,
written and read.
"""

import struct

ETHERNET = bytes(12) + b"\x08\x00"
SYN, PUSH_ACK, SYN_ACK = 0x02, 0x18, 0x12


def write(path, records):
    """Each record is (bytes, length in full); fewer bytes are a packet that was cut off."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for at, (data, length) in enumerate(records):
            file.write(struct.pack("<IIII", at // 1000, at % 1000 * 1000, len(data), length) + data)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    at, records = 24, []
    while at + 16 <= len(data):
        captured, length = struct.unpack_from("<II", data, at + 8)
        records.append((data[at + 16 : at + 16 + captured], length))
        at += 16 + captured
    return records


def payload_at(packet):
    """Where the TCP payload of a packet begins; None if it has none, or is no TCP packet."""
    if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != 6:
        return None
    end = 14 + int.from_bytes(packet[16:18], "big")
    begin = 34 + (packet[46] >> 4) * 4
    return begin if begin < min(end, len(packet)) else None


class Connection:
    """A TCP connection. Its packets go to a common list."""

    def __init__(self, records, client=51234, server=45000, opened=True):
        self.records = records
        self.ports = (client, server)
        self.sequence = [1000, 2000]
        if opened:
            self.packet(0, b"", SYN)
            self.packet(1, b"", SYN_ACK)

    def packet(self, sender, data, flags=PUSH_ACK, captured=None):
        source, target = self.ports[sender], self.ports[1 - sender]
        tcp = struct.pack(
            ">HHIIBBHHH",
            source,
            target,
            self.sequence[sender],
            self.sequence[1 - sender],
            5 << 4,
            flags,
            65535,
            0,
            0,
        )
        ends = (b"\x7f\0\0\1", b"\x7f\0\0\2")
        length = 20 + len(tcp) + len(data)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0, 64, 6, 0)
        packet = ETHERNET + ip + ends[sender] + ends[1 - sender] + tcp + data
        self.records.append((packet[:captured], len(packet)))
        self.sequence[sender] += len(data) + (1 if flags & SYN else 0)

    def send(self, data, sender=0, pieces=None, captured=None):
        """Sends data as one segment, or cut at these places."""
        places = [0, *(pieces or []), len(data)]
        for begin, end in zip(places, places[1:], strict=False):
            self.packet(sender, data[begin:end], captured=captured)
