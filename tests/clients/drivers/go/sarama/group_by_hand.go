package main

import (
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"chronik.tests/clients/protocol"
)

const strategy = "range"

// handMember is a member in the requests of 0.10.0: JoinGroup, SyncGroup, Heartbeat, LeaveGroup and OffsetFetch v0 and
// v1, OffsetCommit v2. Sarama has no group consumer for brokers that old; libraries of the time were written so.
type handMember struct {
	protocol.Progress
	group, topic string
	client       sarama.Client
	consumer     sarama.Consumer
	id           string
	stopping     chan struct{}
	done         chan error
	turn         sync.Mutex      // guards what follows
	generation   int32           // that commits belong to
	next         map[int32]int64 // what to commit
}

func (d driver) joinByHand(group, topic string) (protocol.Member, error) {
	client, err := sarama.NewClient(d.brokers, d.config())
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	joined := &handMember{group: group, topic: topic, client: client, consumer: consumer}
	joined.stopping, joined.done = make(chan struct{}), make(chan error, 1)
	go func() { joined.done <- joined.run() }()
	return joined, nil
}

func (m *handMember) run() error {
	for {
		select {
		case <-m.stopping:
			return m.leave()
		default:
		}
		owned, err := m.join()
		if errors.Is(err, sarama.ErrRebalanceInProgress) {
			continue // somebody came or went while we joined
		}
		if err != nil {
			return err
		}
		if err := m.consume(owned); err != nil {
			return err
		}
	}
}

// join returns what the leader, maybe this member, gave to this member.
func (m *handMember) join() ([]int32, error) {
	coordinator, err := m.coordinator()
	if err != nil {
		return nil, err
	}
	request := &sarama.JoinGroupRequest{GroupId: m.group, MemberId: m.id, ProtocolType: "consumer"}
	request.SessionTimeout = int32(protocol.SessionTimeout / time.Millisecond)
	interest := &sarama.ConsumerGroupMemberMetadata{Topics: []string{m.topic}}
	if err := request.AddGroupProtocolMetadata(strategy, interest); err != nil {
		return nil, err
	}
	joined, err := coordinator.JoinGroup(request)
	if err = first(err, func() sarama.KError { return joined.Err }); err != nil {
		return nil, err
	}
	m.id = joined.MemberId
	shares := &sarama.SyncGroupRequest{GroupId: m.group, MemberId: m.id, GenerationId: joined.GenerationId}
	if joined.LeaderId == m.id {
		if err := m.share(joined, shares); err != nil {
			return nil, err
		}
	}
	synced, err := coordinator.SyncGroup(shares)
	if err = first(err, func() sarama.KError { return synced.Err }); err != nil {
		return nil, err
	}
	assignment, err := synced.GetMemberAssignment()
	if err != nil {
		return nil, err
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	m.generation, m.next = joined.GenerationId, map[int32]int64{}
	return assignment.Topics[m.topic], nil
}

func (m *handMember) share(joined *sarama.JoinGroupResponse, shares *sarama.SyncGroupRequest) error {
	members, err := joined.GetMembers()
	if err != nil {
		return err
	}
	partitions, err := m.client.Partitions(m.topic)
	if err != nil {
		return err
	}
	plan, err := sarama.NewBalanceStrategyRange().Plan(members, map[string][]int32{m.topic: partitions})
	if err != nil {
		return err
	}
	for id, topics := range plan {
		if err := shares.AddGroupAssignmentMember(id, &sarama.ConsumerGroupMemberAssignment{Topics: topics}); err != nil {
			return err
		}
	}
	return nil
}

// consume reads what the member owns until the group changes, or the member is to leave.
func (m *handMember) consume(owned []int32) error {
	starts, err := m.committed(owned)
	if err != nil {
		return err
	}
	var readers sync.WaitGroup
	claims := []sarama.PartitionConsumer{}
	for _, partition := range owned {
		claim, err := m.consumer.ConsumePartition(m.topic, partition, starts[partition])
		if err != nil {
			return err
		}
		claims = append(claims, claim)
		readers.Go(func() {
			for message := range claim.Messages() {
				m.turn.Lock()
				m.next[message.Partition] = message.Offset + 1
				m.turn.Unlock()
				m.Saw(seen(message))
			}
		})
	}
	m.Gained(owned...)
	err = m.beat()
	m.Lost(owned...)
	for _, claim := range claims {
		claim.AsyncClose()
	}
	readers.Wait()
	return err
}

func (m *handMember) beat() error {
	ticks := time.NewTicker(heartbeatInterval)
	defer ticks.Stop()
	for {
		select {
		case <-m.stopping:
			return nil
		case <-ticks.C:
		}
		coordinator, err := m.coordinator()
		if err != nil {
			return err
		}
		request := &sarama.HeartbeatRequest{GroupId: m.group, MemberId: m.id, GenerationId: m.generation}
		beaten, err := coordinator.Heartbeat(request)
		err = first(err, func() sarama.KError { return beaten.Err })
		if errors.Is(err, sarama.ErrRebalanceInProgress) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (m *handMember) committed(partitions []int32) (map[int32]int64, error) {
	coordinator, err := m.coordinator()
	if err != nil {
		return nil, err
	}
	request := &sarama.OffsetFetchRequest{Version: 1, ConsumerGroup: m.group}
	for _, partition := range partitions {
		request.AddPartition(m.topic, partition)
	}
	response, err := coordinator.FetchOffset(request)
	if err != nil {
		return nil, err
	}
	starts := map[int32]int64{}
	for _, partition := range partitions {
		block := response.GetBlock(m.topic, partition)
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		starts[partition] = block.Offset
		if block.Offset < 0 {
			starts[partition] = sarama.OffsetOldest
		}
	}
	return starts, nil
}

func (m *handMember) Commit() error {
	coordinator, err := m.coordinator()
	if err != nil {
		return err
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	request := &sarama.OffsetCommitRequest{Version: 2, ConsumerGroup: m.group, ConsumerID: m.id, RetentionTime: -1}
	request.ConsumerGroupGeneration = m.generation
	for partition, offset := range m.next {
		request.AddBlock(m.topic, partition, offset, sarama.ReceiveTime, "")
	}
	response, err := coordinator.CommitOffset(request)
	if err != nil {
		return err
	}
	for _, code := range response.Errors[m.topic] {
		if code != sarama.ErrNoError {
			return code
		}
	}
	return nil
}

func (m *handMember) Leave() error {
	close(m.stopping)
	if err := <-m.done; err != nil {
		return err
	}
	if err := m.consumer.Close(); err != nil {
		return err
	}
	return m.client.Close()
}

func (m *handMember) leave() error {
	coordinator, err := m.coordinator()
	if err != nil {
		return err
	}
	left, err := coordinator.LeaveGroup(&sarama.LeaveGroupRequest{GroupId: m.group, MemberId: m.id})
	return first(err, func() sarama.KError { return left.Err })
}

func (m *handMember) coordinator() (*sarama.Broker, error) {
	coordinator, err := m.client.Coordinator(m.group)
	if err != nil {
		return nil, err
	}
	if err := coordinator.Open(m.client.Config()); err != nil && !errors.Is(err, sarama.ErrAlreadyConnected) {
		return nil, err
	}
	return coordinator, nil
}

// first is what went wrong on the way, or else what the broker refused.
func first(onTheWay error, refused func() sarama.KError) error {
	if onTheWay != nil {
		return onTheWay
	}
	if code := refused(); code != sarama.ErrNoError {
		return code
	}
	return nil
}
