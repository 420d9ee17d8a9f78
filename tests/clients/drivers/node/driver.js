// KafkaJS, told what to do by the lines of tests/clients/driver.py.
'use strict'

const readline = require('node:readline')
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4js')
const { ZstdCodec } = require('zstd-codec')

const PATIENCE_MS = 60_000
const SESSION_MS = 300_000 // longer than a test waits: who leaves must be gone by leaving
const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

const kafka = new Kafka({ clientId: 'driver', brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
const members = new Map()

// KafkaJS itself brings gzip alone; codecs for the others are handed to it.
function addCodecs(zstd) {
  const zstdSimple = new zstd.Simple()
  CompressionCodecs[CompressionTypes.Snappy] = snappy
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => Buffer.from(lz4.compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(zstdSimple.compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(zstdSimple.decompress(buffer)),
  })
}

const OPS = {
  async produce({ topic, codec, idempotent, records }) {
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 })
    await producer.connect()
    try {
      const sent = await producer.send({
        topic,
        acks: -1,
        compression: CompressionTypes[CODECS[codec]],
        messages: records.map(toMessage),
      })
      // One batch for each partition: its records follow each other from baseOffset on.
      const next = new Map(sent.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]))
      return {
        offsets: records.map(({ partition }) => {
          const offset = next.get(partition)
          next.set(partition, offset + 1)
          return [partition, offset]
        }),
      }
    } finally {
      await producer.disconnect()
    }
  },

  // KafkaJS has no consumer without a group, so it gets one of its own.
  async consume({ topic, count }) {
    const reader = new Member(`read-${topic}-${process.hrtime.bigint()}`, topic)
    try {
      await reader.start()
      await reader.hasReceived(count)
      return { records: reader.records }
    } finally {
      await reader.leave()
    }
  },

  async join({ member, group, topic }) {
    const joined = new Member(group, topic)
    members.set(member, joined)
    await joined.start()
  },

  received: async ({ member }) => ({ records: members.get(member).records }),
  assignment: async ({ member }) => ({ partitions: members.get(member).partitions }),
  commit: ({ member }) => members.get(member).commit(),

  async leave({ member }) {
    await members.get(member).leave()
    members.delete(member)
  },
}

class Member {
  constructor(groupId, topic) {
    this.topic = topic
    this.records = []
    this.partitions = []
    this.next = new Map()
    this.arrived = () => {}
    const intervals = { sessionTimeout: SESSION_MS, heartbeatInterval: 100, maxWaitTimeInMs: 100 }
    this.consumer = kafka.consumer({ groupId, ...intervals })
    const { GROUP_JOIN, REBALANCING } = this.consumer.events
    this.consumer.on(GROUP_JOIN, ({ payload }) => (this.partitions = payload.memberAssignment[topic] ?? []))
    this.consumer.on(REBALANCING, () => (this.partitions = []))
  }

  async start() {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true })
    await this.consumer.run({ autoCommit: false, eachMessage: async (one) => this.receive(one) })
  }

  receive({ partition, message }) {
    this.records.push(toSeen(partition, message))
    this.next.set(partition, String(BigInt(message.offset) + 1n))
    this.arrived()
  }

  hasReceived(count) {
    return new Promise((resolve, reject) => {
      const short = () => reject(new Error(`only ${this.records.length} records after ${PATIENCE_MS} ms`))
      const patience = setTimeout(short, PATIENCE_MS)
      this.arrived = () => {
        if (this.records.length >= count) {
          clearTimeout(patience)
          resolve()
        }
      }
      this.arrived()
    })
  }

  commit() {
    return this.consumer.commitOffsets(
      [...this.next].map(([partition, offset]) => ({ topic: this.topic, partition, offset })),
    )
  }

  leave() {
    return this.consumer.disconnect()
  }
}

function toMessage({ value, key, headers, timestamp_ms, partition }) {
  const grouped = {}
  for (const [name, text] of headers) {
    grouped[name] = [...(grouped[name] ?? []), text]
  }
  const timestamp = timestamp_ms === null ? undefined : String(timestamp_ms)
  return { value, key, headers: grouped, partition, timestamp }
}

function toSeen(partition, { offset, value, key, headers, timestamp }) {
  return {
    partition,
    offset: Number(offset),
    value: value === null ? null : value.toString(),
    key: key === null ? null : key.toString(),
    headers: Object.entries(headers ?? {}).flatMap(([name, values]) =>
      [values].flat().map((one) => [name, one.toString()]),
    ),
    timestamp_ms: Number(timestamp),
  }
}

async function main() {
  addCodecs(await new Promise((resolve) => ZstdCodec.run(resolve)))
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let reply
    try {
      const request = JSON.parse(line)
      reply = (await OPS[request.op](request)) ?? {}
    } catch (failure) {
      reply = { error: String(failure.stack ?? failure) }
    }
    process.stdout.write(JSON.stringify(reply) + '\n')
  }
  process.exit(0) // members that nobody told to leave do not keep the process
}

main()
