// Package protocol speaks the lines of tests/clients/driver.py for a Go client: one JSON object in, one out.
// Text stands for bytes in UTF-8; a nil pointer is null.
package protocol

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// PatienceMax ends what hangs; nothing that works takes so long.
const PatienceMax = 60 * time.Second

// SessionTimeout is longer than a test waits: who leaves must be gone by leaving.
const SessionTimeout = 5 * time.Minute

type Sent struct {
	Value       *string     `json:"value"`
	Key         *string     `json:"key"`
	Headers     [][2]string `json:"headers"`
	TimestampMs *int64      `json:"timestamp_ms"`
	Partition   int32       `json:"partition"` // the contract always names one
}

type Seen struct {
	Partition   int32       `json:"partition"`
	Offset      int64       `json:"offset"`
	Value       *string     `json:"value"`
	Key         *string     `json:"key"`
	Headers     [][2]string `json:"headers"`
	TimestampMs int64       `json:"timestamp_ms"`
}

// Position is a partition and an offset in it.
type Position [2]int64

type Client interface {
	Produce(topic, codec string, idempotent bool, records []Sent) ([]Position, error)
	Consume(topic string, count int) ([]Seen, error)
	Join(group, topic string) (Member, error)
}

// Member is a consumer in a group that polls by itself.
type Member interface {
	Received() []Seen
	Assignment() []int32
	Commit() error
	Leave() error
}

type request struct {
	Op         string `json:"op"`
	Topic      string `json:"topic"`
	Codec      string `json:"codec"`
	Idempotent bool   `json:"idempotent"`
	Records    []Sent `json:"records"`
	Count      int    `json:"count"`
	Member     string `json:"member"`
	Group      string `json:"group"`
}

type reply struct {
	Offsets    []Position `json:"offsets,omitempty"`
	Records    []Seen     `json:"records"`
	Partitions []int32    `json:"partitions"`
	Error      string     `json:"error,omitempty"`
}

// Serve answers until there are no more questions.
func Serve(client Client) {
	members := map[string]Member{}
	lines := bufio.NewReader(os.Stdin)
	replies := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		answer := reply{Records: []Seen{}, Partitions: []int32{}}
		if err = json.Unmarshal(line, &asked); err == nil {
			err = do(client, members, asked, &answer)
		}
		if err != nil {
			answer.Error = err.Error()
		}
		if replies.Encode(answer) != nil {
			return
		}
	}
}

func do(client Client, members map[string]Member, asked request, answer *reply) (err error) {
	switch asked.Op {
	case "produce":
		answer.Offsets, err = client.Produce(asked.Topic, asked.Codec, asked.Idempotent, asked.Records)
	case "consume":
		answer.Records, err = client.Consume(asked.Topic, asked.Count)
	case "join":
		members[asked.Member], err = client.Join(asked.Group, asked.Topic)
	case "received":
		answer.Records = members[asked.Member].Received()
	case "assignment":
		answer.Partitions = members[asked.Member].Assignment()
	case "commit":
		err = members[asked.Member].Commit()
	case "leave":
		err = members[asked.Member].Leave()
		delete(members, asked.Member)
	default:
		err = fmt.Errorf("no such op: %q", asked.Op)
	}
	return err
}

// Progress is what a member has got and what it owns; the client's goroutines write it, the protocol reads it.
type Progress struct {
	turn  sync.Mutex
	seen  []Seen
	owned map[int32]bool
}

func (p *Progress) Saw(records ...Seen) {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.seen = append(p.seen, records...)
}

func (p *Progress) Gained(partitions ...int32) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.owned == nil {
		p.owned = map[int32]bool{}
	}
	for _, partition := range partitions {
		p.owned[partition] = true
	}
}

func (p *Progress) Lost(partitions ...int32) {
	p.turn.Lock()
	defer p.turn.Unlock()
	for _, partition := range partitions {
		delete(p.owned, partition)
	}
}

func (p *Progress) Received() []Seen {
	p.turn.Lock()
	defer p.turn.Unlock()
	return append([]Seen{}, p.seen...)
}

func (p *Progress) Assignment() []int32 {
	p.turn.Lock()
	defer p.turn.Unlock()
	partitions := []int32{}
	for partition := range p.owned {
		partitions = append(partitions, partition)
	}
	return partitions
}

// Bytes keeps null apart from empty.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return append([]byte{}, *text...)
}

// Text keeps null apart from empty.
func Text(bytes []byte) *string {
	if bytes == nil {
		return nil
	}
	text := string(bytes)
	return &text
}
