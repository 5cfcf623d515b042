#!/usr/bin/env python3
import asyncio, json, os, secrets, signal, ssl, time
from pathlib import Path

import nats

MODULE, NODE = os.environ["MESH_MODULE"], os.environ["MESH_NODE"]
SEAT = "post"


def credential():
    path = Path(os.environ["MESH_CREDS"])
    text = path.read_text()
    if "BEGIN NATS USER JWT" in text:
        return {"user_credentials": str(path)}
    return {"nkeys_seed_str": text.strip()}


def is_ack_of(reply, stream, consumer):
    """Whether a reply acknowledges a message of this consumer, in either form a server writes."""
    tokens = reply.split(".")
    older = len(tokens) == 9 and tokens[2:4] == [stream, consumer]
    newer = len(tokens) >= 11 and tokens[4:6] == [stream, consumer]
    return tokens[:2] == ["$JS", "ACK"] and (older or newer)


def hears(stream, consumer, subjects, work):
    async def heard(message):
        if message.subject.startswith(subjects) and is_ack_of(message.reply, stream, consumer):
            await work(message)
            await message.respond(b"+ACK")

    return heard


async def main():
    stop, not_held = asyncio.Event(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)

    async def refused(error):
        if f"mesh.deliver.seat.{SEAT}" in str(error):
            not_held.set()
        else:
            print("the bus:", error, flush=True)

    async def closed():
        stop.set()  # nats-py gives up when its credential is refused; the agent starts us again

    bus = await nats.connect(
        os.environ["MESH_BUS_URL"].split(","),
        tls=ssl.create_default_context(cafile=os.environ["MESH_CA"]),
        inbox_prefix=os.environ["MESH_INBOX"],
        max_reconnect_attempts=-1,
        error_cb=refused,
        closed_cb=closed,
        **credential(),
    )

    async def emit(event, body):
        message_id = f"{MODULE}/{NODE}/{time.time_ns()}-{secrets.token_hex(5)}"
        subject = f"mesh.mod.{MODULE}.{event}"
        headers = {"Nats-Msg-Id": f"{subject}:{message_id}"}
        answer = json.loads((await bus.request(subject, body, timeout=5, headers=headers)).data)
        if "error" in answer:
            raise RuntimeError(f"{subject}: {answer['error']}")

    async def greeting(message):
        print(message.subject, "says", message.data.decode(), flush=True)
        await emit("noted", message.headers["Nats-Msg-Id"].encode())

    async def letter(message):
        print("a letter from", message.subject.split(".")[-1], flush=True)

    async def work():
        while True:  # refused while the module does not hold the seat, and withdrawn when it no longer does
            not_held.clear()
            heard = hears(f"SEAT-{SEAT}", SEAT, f"mesh.seat.{SEAT}.", letter)
            post = await bus.subscribe(f"mesh.deliver.seat.{SEAT}", queue=SEAT, cb=heard)
            await not_held.wait()
            await post.unsubscribe()
            await asyncio.sleep(5)

    await emit("announced", json.dumps({"release": "0.1.0", "node": NODE}).encode())
    heard = hears("EVENTS", MODULE, "mesh.mod.", greeting)
    await bus.subscribe(f"mesh.deliver.module.{MODULE}", queue=MODULE, cb=heard)
    working = asyncio.create_task(work())
    await stop.wait()
    working.cancel()
    if bus.is_connected:
        await bus.drain()


asyncio.run(main())
