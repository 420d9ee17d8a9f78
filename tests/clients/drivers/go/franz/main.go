// franz-go, told what to do by the lines of tests/clients/driver.py.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"chronik.tests/clients/protocol"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// The address comes last; before it may stand a login: mechanism, user, password.
func main() {
	last := len(os.Args) - 1
	common := []kgo.Opt{kgo.SeedBrokers(os.Args[last])}
	if last == 4 {
		common = append(common, kgo.SASL(login(os.Args[1], os.Args[2], os.Args[3])))
	}
	protocol.Serve(franz{common})
}

func login(mechanism, user, password string) sasl.Mechanism {
	switch mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}
}

type franz struct {
	common []kgo.Opt
}

func (f franz) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{}, f.common...), more...)...)
}

func (f franz) Produce(topic, codec string, idempotent bool, records []protocol.Sent) ([]protocol.Position, error) {
	settings := []kgo.Opt{
		kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.ProducerLinger(20 * time.Millisecond),
	}
	if !idempotent {
		settings = append(settings, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	client, err := f.client(settings...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sent := []*kgo.Record{}
	for _, record := range records {
		one := &kgo.Record{Topic: topic, Partition: record.Partition}
		one.Key, one.Value = protocol.Bytes(record.Key), protocol.Bytes(record.Value)
		if record.TimestampMs != nil {
			one.Timestamp = time.UnixMilli(*record.TimestampMs)
		}
		for _, header := range record.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		sent = append(sent, one)
	}
	// Not RecordDeliveryTimeout, which counts from a record's own timestamp.
	patience, cancel := context.WithTimeout(context.Background(), protocol.PatienceMax)
	defer cancel()
	if err := client.ProduceSync(patience, sent...).FirstErr(); err != nil {
		return nil, err
	}
	positions := []protocol.Position{}
	for _, record := range sent {
		positions = append(positions, protocol.Position{int64(record.Partition), record.Offset})
	}
	return positions, nil
}

func (f franz) Consume(topic string, count int) ([]protocol.Seen, error) {
	client, err := f.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	patience, cancel := context.WithTimeout(context.Background(), protocol.PatienceMax)
	defer cancel()
	found := []protocol.Seen{}
	for len(found) < count {
		fetches := client.PollFetches(patience)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(found), err)
		}
		found = append(found, seen(fetches)...)
	}
	return found, nil
}

type member struct {
	protocol.Progress
	client *kgo.Client
	done   chan error
}

func (f franz) Join(group, topic string) (protocol.Member, error) {
	joined := &member{done: make(chan error, 1)}
	lost := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		joined.Lost(partitions[topic]...)
	}
	settings := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(protocol.SessionTimeout),
		kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			joined.Gained(partitions[topic]...)
		}),
		kgo.OnPartitionsRevoked(lost),
		kgo.OnPartitionsLost(lost),
	}
	if os.Getenv("CHRONIK_GROUP_PROTOCOL") == "consumer" {
		settings = append(settings, kgo.ServerSideBalancer())
	}
	client, err := f.client(settings...)
	if err != nil {
		return nil, err
	}
	joined.client = client
	go joined.poll()
	return joined, nil
}

func (m *member) poll() {
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			m.done <- nil
			return
		}
		if err := fetches.Err(); err != nil {
			m.done <- err
			return
		}
		m.Saw(seen(fetches)...)
	}
}

func (m *member) Commit() error {
	patience, cancel := context.WithTimeout(context.Background(), protocol.PatienceMax)
	defer cancel()
	return m.client.CommitUncommittedOffsets(patience)
}

func (m *member) Leave() error {
	m.client.Close()
	return <-m.done
}

func seen(fetches kgo.Fetches) []protocol.Seen {
	found := []protocol.Seen{}
	fetches.EachRecord(func(record *kgo.Record) {
		one := protocol.Seen{Partition: record.Partition, Offset: record.Offset, TimestampMs: record.Timestamp.UnixMilli()}
		one.Key, one.Value = protocol.Text(record.Key), protocol.Text(record.Value)
		for _, header := range record.Headers {
			one.Headers = append(one.Headers, [2]string{header.Key, string(header.Value)})
		}
		found = append(found, one)
	})
	return found
}
