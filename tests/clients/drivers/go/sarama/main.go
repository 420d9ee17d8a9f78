// Sarama, told what to do by the lines of tests/clients/driver.py.
//
//	sarama VERSION BOOTSTRAP      the version of Kafka it believes to talk to: 0.10.0.0, or max
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	"chronik.tests/clients/protocol"
)

const heartbeatInterval = 100 * time.Millisecond

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func main() {
	version := sarama.MaxVersion
	if os.Args[1] != "max" {
		parsed, err := sarama.ParseKafkaVersion(os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		version = parsed
	}
	protocol.Serve(driver{version: version, brokers: os.Args[2:]})
}

type driver struct {
	version sarama.KafkaVersion
	brokers []string
}

func (d driver) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = d.version
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	return config
}

func (d driver) Produce(topic, codec string, idempotent bool, records []protocol.Sent) ([]protocol.Position, error) {
	config := d.config()
	config.Net.MaxOpenRequests = 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = codecs[codec]
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Producer.Idempotent = idempotent
	producer, err := sarama.NewSyncProducer(d.brokers, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for _, record := range records {
		messages = append(messages, message(topic, record))
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, fmt.Errorf("%v: %w", err.(sarama.ProducerErrors)[0], err)
	}
	positions := []protocol.Position{}
	for _, message := range messages {
		positions = append(positions, protocol.Position{int64(message.Partition), message.Offset})
	}
	return positions, nil
}

func message(topic string, record protocol.Sent) *sarama.ProducerMessage {
	one := &sarama.ProducerMessage{Topic: topic, Partition: record.Partition}
	if record.Key != nil {
		one.Key = sarama.StringEncoder(*record.Key)
	}
	if record.Value != nil {
		one.Value = sarama.StringEncoder(*record.Value)
	}
	if record.TimestampMs != nil {
		one.Timestamp = time.UnixMilli(*record.TimestampMs)
	}
	for _, header := range record.Headers {
		one.Headers = append(one.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
	}
	return one
}

func (d driver) Consume(topic string, count int) ([]protocol.Seen, error) {
	consumer, err := sarama.NewConsumer(d.brokers, d.config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partitions, err := consumer.Partitions(topic)
	if err != nil {
		return nil, err
	}
	messages := make(chan *sarama.ConsumerMessage)
	for _, partition := range partitions {
		one, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		defer one.AsyncClose()
		go func() {
			for message := range one.Messages() {
				messages <- message
			}
		}()
	}
	found := []protocol.Seen{}
	patience := time.After(protocol.PatienceMax)
	for len(found) < count {
		select {
		case message := <-messages:
			found = append(found, seen(message))
		case <-patience:
			return nil, fmt.Errorf("only %d records after %v", len(found), protocol.PatienceMax)
		}
	}
	return found, nil
}

func (d driver) Join(group, topic string) (protocol.Member, error) {
	if d.version.IsAtLeast(sarama.V0_10_2_0) {
		return d.joinByLibrary(group, topic)
	}
	return d.joinByHand(group, topic)
}

func seen(message *sarama.ConsumerMessage) protocol.Seen {
	one := protocol.Seen{Partition: message.Partition, Offset: message.Offset, TimestampMs: message.Timestamp.UnixMilli()}
	one.Key, one.Value = protocol.Text(message.Key), protocol.Text(message.Value)
	for _, header := range message.Headers {
		one.Headers = append(one.Headers, [2]string{string(header.Key), string(header.Value)})
	}
	return one
}
