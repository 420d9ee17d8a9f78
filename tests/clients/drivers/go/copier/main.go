// Copies a topic with transactions by franz-go's GroupTransactSession, until it is killed.
//
//	copier BOOTSTRAP SOURCE TARGET GROUP ID
//
// One transaction in three is aborted, and its records are read again. Several copiers share a group; each has a
// transactional id of its own.
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsMax = 100 // of one transaction

func main() {
	bootstrap, source, target, group, id := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(30*time.Second),
		kgo.DefaultProduceTopic(target),
	)
	if err != nil {
		fail("start", err)
	}
	for {
		copySome(session)
	}
}

// The errors of a poll are notices: the client goes on by itself when it has lost a broker or its place in the group.
func copySome(session *kgo.GroupTransactSession) {
	ctx := context.Background()
	fetches := session.PollRecords(ctx, recordsMax)
	fetches.EachError(func(topic string, partition int32, err error) {
		fmt.Println("poll", topic, partition, err)
	})
	if fetches.NumRecords() == 0 {
		return
	}
	if err := session.Begin(); err != nil {
		fail("begin", err)
	}
	failed := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		session.Produce(ctx, &kgo.Record{Key: record.Key, Value: record.Value}, failed.Promise())
	})
	if err := failed.Err(); err != nil {
		fmt.Println("produce", err)
	}
	isWanted := failed.Err() == nil && rand.Intn(3) > 0
	committed, err := session.End(ctx, kgo.TransactionEndTry(isWanted))
	if err != nil {
		fail("end", err)
	}
	fmt.Println("ended", fetches.NumRecords(), committed)
}

func fail(what string, err error) {
	fmt.Println(what, err)
	os.Exit(1)
}
