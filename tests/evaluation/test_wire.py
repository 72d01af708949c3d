"""Frames and values: what goes through, and what a hostile worker may send."""

import os
import random
import socket
import struct

import pytest
import torch

from evaluation.building.request import BuildRequest
from evaluation.correctness.nested import Foreign
from evaluation.device.memory import Copies
from evaluation.serialize import from_plain
from evaluation.worker import codec, wire
from evaluation.worker.answer import OneTensor
from evaluation.worker.buffers import InPlace, ProcessMemory, RegionFull, SharedBuffer, payload_bytes
from evaluation.worker.wire import Frame, Kind, WireError


@pytest.fixture
def buffer():
    with SharedBuffer.create(2**16) as file:
        return SharedBuffer(file.fileno())


def whole(buffer):
    return buffer.region(0, buffer.size)


VALUES = [
    None,
    True,
    -(2**63),
    2**63 - 1,
    1.5,
    "naïve",
    [1, [2, (3, {"a": None, "b": []})]],
    (),
    torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
    torch.tensor([True, False]),
    torch.tensor(3, dtype=torch.int64),
    torch.empty(0, 4),
    torch.ones(1, 3).expand(4, 3),
    torch.arange(10.0)[::3],
    torch.tensor([1 + 2j]).conj(),
    {"w": torch.tensor([1.5, -0.25, 0.0], dtype=torch.bfloat16), "n": [torch.zeros(2, dtype=torch.uint8)]},
]


@pytest.mark.parametrize("value", VALUES)
def test_values_come_back_as_they_were(buffer, value):
    data = codec.encode(value, whole(buffer), strict=True)
    assert_same(codec.decode(data, whole(buffer)), value)
    assert payload_bytes(value) <= buffer.size


def assert_same(got, wanted):
    assert type(got) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert got.dtype == wanted.dtype
        assert torch.equal(got, wanted)
    elif isinstance(wanted, dict):
        assert list(got) == list(wanted)
        for key in wanted:
            assert_same(got[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
    else:
        assert got == wanted


@pytest.mark.parametrize(
    "value", [torch.nn.Parameter(torch.ones(2)), object(), 2**64, {1: 2}, torch.eye(2).to_sparse()]
)
def test_what_is_not_carried_is_named_and_never_sent(buffer, value):
    assert isinstance(codec.decode(codec.encode(value, whole(buffer)), whole(buffer)), Foreign)
    with pytest.raises(codec.NotCarried):
        codec.encode([value], whole(buffer), strict=True)


def test_a_value_that_does_not_fit_is_refused(buffer):
    with pytest.raises(RegionFull):
        codec.encode(torch.zeros(2**16), whole(buffer))


@pytest.fixture
def memory():
    """This process's own, as a judge reads a worker's."""
    descriptor = os.open("/proc/self/mem", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_outputs_are_read_where_they_lie(memory, value):
    kept = InPlace()
    data = codec.encode(value, kept)
    assert_same(codec.decode(data, ProcessMemory(memory, 2**20)), value)


def test_what_is_read_is_out_of_the_workers_reach(memory):
    output, kept = torch.ones(4), InPlace()
    data = codec.encode(output, kept)
    copied = codec.decode(data, ProcessMemory(memory, 2**20))
    output.fill_(7)
    assert torch.equal(copied, torch.ones(4))


def test_the_next_answer_like_one_tensor_is_read_without_being_parsed(memory):
    first, second, kept = torch.zeros(2, 3), torch.ones(2, 3), InPlace()
    answers = [
        wire.head(frame) + frame.payload
        for ticket, tensor in enumerate([first, second, second.t(), second.double()])
        for frame in [Frame(Kind.DONE, ticket, codec.encode(tensor, kept))]
    ]
    alike = OneTensor.of(answers[0])
    assert alike.fits(answers[1], 1) and torch.equal(alike.tensor(answers[1], ProcessMemory(memory, 100)), second)
    assert not alike.fits(answers[1], 2), "the ticket is another one"
    assert not any(alike.fits(answer, ticket) for ticket, answer in enumerate(answers[2:], start=2))
    assert not alike.fits(answers[1] + b"x", 1) and not alike.fits(answers[1][:-1], 1) and not alike.fits(b"", 1)
    assert alike.tensor(answers[1], ProcessMemory(memory, 8)) == Foreign("something larger than the reference's output")


@pytest.mark.parametrize("value", [None, [torch.zeros(2)], {"a": torch.zeros(2)}, 3])
def test_other_answers_are_parsed_each_time(value):
    payload = codec.encode(value, InPlace())
    assert OneTensor.of(wire.head(Frame(Kind.DONE, 0, payload)) + payload) is None
    assert OneTensor.of(wire.head(Frame(Kind.DONE, 0, payload))) is None


@pytest.mark.parametrize("place", [0, 8, 2**47, 2**63 + 8, 2**64 - 8])
def test_a_tensor_where_there_is_no_memory_is_refused(memory, place):
    data = struct.pack("<cBBQ2q", b"X", 1, 1, place, 4, 1)
    with pytest.raises(WireError):
        codec.decode(data, ProcessMemory(memory, 2**20))


def test_more_than_may_be_read_is_not_read(memory):
    data = struct.pack("<cBBQ2q", b"X", 1, 1, torch.ones(4).data_ptr(), 2**40, 1)
    assert isinstance(codec.decode(data, ProcessMemory(memory, 2**20)), Foreign)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((2**47, 2**47), (0, 0)),
        ((2**47, 2**47, 0), (1, 1, 1)),
        ((2**30,), (0,)),
        ((2, 2), (8, 1)),
    ],
)
def test_a_tensor_larger_than_what_is_read_of_it_is_refused(memory, shape, strides):
    place = torch.ones(64).data_ptr()
    data = struct.pack(f"<cBBQ{2 * len(shape)}q", b"X", 1, len(shape), place, *shape, *strides)
    with pytest.raises(WireError):
        codec.decode(data, ProcessMemory(memory, 2**20))


def test_a_tensor_without_elements_is_where_its_source_is():
    data = codec.encode(torch.empty(3, 0), InPlace())
    found = codec.decode(data, Copies(torch.empty(8, dtype=torch.uint8, device="meta"), 8))
    assert found.device.type == "meta" and found.shape == (3, 0)


@pytest.mark.parametrize("request_", [{}, [], None, {"name": 1}, {"name": "a", "more": 1}])
def test_a_malformed_build_request_is_told_as_such(request_):
    with pytest.raises(ValueError, match="BuildRequest"):
        from_plain(BuildRequest, request_)


def test_a_bool_that_is_neither_is_true(memory):
    bytes_of_bools = torch.tensor([0, 1, 2, 255], dtype=torch.uint8)
    data = struct.pack("<cBBQ2q", b"X", 9, 1, bytes_of_bools.data_ptr(), 4, 1)
    assert codec.decode(data, ProcessMemory(memory, 2**20)).tolist() == [False, True, True, True]


def test_random_bytes_are_refused_and_never_crash(buffer):
    generator = random.Random(1)
    good = codec.encode([torch.ones(4), {"a": (1, "b")}, torch.zeros(3, 3)], whole(buffer))
    refused = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(generator.randint(1, 6)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            codec.decode(bytes(data), whole(buffer))
        except WireError:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize(
    "tensor",
    [
        (1, 2, 0, (2**40, 2**40), (1, 1)),
        (1, 1, 2**16, (1,), (1,)),
        (1, 1, 8, (1,), (1,)),
        (1, 1, 0, (4,), (-1,)),
        (200, 1, 0, (1,), (1,)),
        (1, 1, 2**63, (1,), (1,)),
        (1, 1, 0, (2**14 + 1,), (1,)),
    ],
)
def test_a_tensor_outside_its_buffer_is_refused(buffer, tensor):
    code, dimensions, offset, shape, strides = tensor
    data = struct.pack(f"<cBBQ{2 * dimensions}q", b"X", code, dimensions, offset, *shape, *strides)
    with pytest.raises(WireError):
        codec.decode(data, whole(buffer))


@pytest.mark.parametrize(
    "data", [b"", b"L\xff\xff\xff\x7f", b"S\xff\xff\xff\x7f", b"Q", b"NN", b"L\x01\0\0\0" * 60 + b"N"]
)
def test_malformed_values_are_refused(data):
    with pytest.raises(WireError):
        codec.decode(data)


def test_frames_cross_with_their_descriptors():
    mine, its = socket.socketpair()
    with mine, its, SharedBuffer.create(64) as file:
        payload = bytes(range(256)) * 200
        wire.send(mine, Frame(Kind.MAP, 2**64 - 1, payload, [file.fileno()]))
        got = wire.receive(its, (Kind.MAP,), accept_descriptors=True)
        assert (got.kind, got.ticket, got.payload) == (Kind.MAP, 2**64 - 1, payload)
        (descriptor,) = got.descriptors
        with os.fdopen(descriptor, "rb"):
            assert SharedBuffer(descriptor).size >= 64


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 20,
        struct.pack("<4sHHQI", b"KSW1", 99, 0, 0, 0),
        struct.pack("<4sHHQI", b"KSW1", Kind.LOADED, 0, 0, 0),
        struct.pack("<4sHHQI", b"KSW1", Kind.DONE, 1, 0, 0),
        struct.pack("<4sHHQI", b"KSW1", Kind.DONE, 0, 0, 2**32 - 1),
    ],
)
def test_other_frames_are_refused(data):
    mine, its = socket.socketpair()
    with mine, its:
        its.sendall(data)
        with pytest.raises(WireError):
            wire.receive(mine, (Kind.DONE,))


def test_an_end_in_the_middle_of_a_frame_is_an_end():
    mine, its = socket.socketpair()
    with mine:
        its.sendall(struct.pack("<4sHHQI", b"KSW1", Kind.DONE, 0, 0, 10) + b"five.")
        its.close()
        with pytest.raises(wire.Closed):
            wire.receive(mine, (Kind.DONE,))


def test_a_shared_buffer_cannot_be_cut_short():
    with SharedBuffer.create(4096) as file, pytest.raises(PermissionError):
        file.truncate(0)
