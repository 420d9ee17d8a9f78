package main

import (
	"context"
	"sync"

	"github.com/IBM/sarama"

	"chronik.tests/clients/protocol"
)

// libraryMember is a member by Sarama's ConsumerGroup, which wants a broker of 0.10.2 at least.
type libraryMember struct {
	protocol.Progress
	topic   string
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	done    chan error
	turn    sync.Mutex
	session sarama.ConsumerGroupSession // of this generation; nil between two of them
}

func (d driver) joinByLibrary(name, topic string) (protocol.Member, error) {
	config := d.config()
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = protocol.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = heartbeatInterval
	group, err := sarama.NewConsumerGroup(d.brokers, name, config)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	joined := &libraryMember{topic: topic, group: group, cancel: cancel, done: make(chan error, 1)}
	go joined.consume(running)
	return joined, nil
}

func (m *libraryMember) consume(running context.Context) {
	for running.Err() == nil {
		if err := m.group.Consume(running, []string{m.topic}, m); err != nil {
			m.done <- err
			return
		}
	}
	m.done <- nil
}

func (m *libraryMember) Setup(session sarama.ConsumerGroupSession) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.session = session
	m.Gained(session.Claims()[m.topic]...)
	return nil
}

func (m *libraryMember) Cleanup(session sarama.ConsumerGroupSession) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.session = nil
	m.Lost(session.Claims()[m.topic]...)
	return nil
}

func (m *libraryMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.Saw(seen(message))
	}
	return nil
}

func (m *libraryMember) Commit() error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if m.session != nil {
		m.session.Commit()
	}
	return nil
}

func (m *libraryMember) Leave() error {
	m.cancel()
	if err := <-m.done; err != nil {
		return err
	}
	return m.group.Close()
}
