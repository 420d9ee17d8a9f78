/* The load of benchmarks/broker.py, by librdkafka, so that the client costs the same whatever broker is measured.
 *
 *   load produce BROKERS TOPIC MESSAGES SIZE ACKS CODEC IDEMPOTENT   as fast as it goes, in large batches
 *   load consume BROKERS TOPIC PARTITIONS MESSAGES                   from the beginning, until so many have come
 *   load one     BROKERS TOPIC MESSAGES SIZE ACKS                    one message in flight: each is timed
 *   load many    BROKERS TOPIC SECONDS SIZE ACKS PRODUCERS           so many producers, one message in flight each
 *
 * Prints one line of JSON: messages that were acknowledged or read, those that failed, seconds, payload bytes, and
 * latencies in microseconds where messages are timed. Ends with 1 when anything failed or never came.
 */
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LARGE_BATCH_BYTES "1000000"
#define LINGER_MS "5"            /* of `produce`; the others send each message at once */
#define WARM_UP_MESSAGES 50      /* of `one`, not timed: connections and metadata */
#define CONSUME_SECONDS_MAX 120
#define MESSAGES_AT_A_TIME 10000 /* taken from the consumer's queue */

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void give_up(const char *why) {
    fprintf(stderr, "load: %s\n", why);
    exit(2);
}

/* --- clients */

/* Key and value, alternating, ended by NULL. */
static rd_kafka_t *client(rd_kafka_type_t type, const char *const *settings,
                          void (*delivered)(rd_kafka_t *, const rd_kafka_message_t *, void *)) {
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (; settings[0]; settings += 2)
        if (rd_kafka_conf_set(conf, settings[0], settings[1], why, sizeof why) != RD_KAFKA_CONF_OK) give_up(why);
    if (delivered) rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_t *made = rd_kafka_new(type, conf, why, sizeof why);
    if (!made) give_up(why);
    return made;
}

static int64_t acknowledged, failed; /* of `produce`, which has one client */

static void count_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err) failed++;
    else acknowledged++;
}

/* A message that somebody waits for carries a place for its outcome. */
enum outcome { PENDING, DELIVERED, LOST };

static void tell_outcome(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    *(enum outcome *)message->_private = message->err ? LOST : DELIVERED;
}

static rd_kafka_t *producer(const char *brokers, const char *acks, const char *linger_ms, const char *codec,
                            const char *idempotent, void (*delivered)(rd_kafka_t *, const rd_kafka_message_t *, void *)) {
    const char *settings[] = {"bootstrap.servers", brokers, "acks", acks, "linger.ms", linger_ms,
                              "batch.size", LARGE_BATCH_BYTES, "batch.num.messages", "100000",
                              "compression.codec", codec, "enable.idempotence", idempotent,
                              "queue.buffering.max.messages", "1000000", "queue.buffering.max.kbytes", "1000000",
                              "message.timeout.ms", "60000", NULL};
    return client(RD_KAFKA_PRODUCER, settings, delivered);
}

/* Letters that do not repeat for long: neither random bytes nor one byte is what people send. */
static char *payload(int size_bytes) {
    char *made = malloc((size_t)size_bytes);
    uint32_t state = 2463534242u;
    for (int i = 0; i < size_bytes; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        made[i] = (char)('a' + state % 26);
    }
    return made;
}

/* Sends one message and waits for it; its latency, or -1 if it was lost. */
static int64_t send_and_wait(rd_kafka_t *rk, const char *topic, int32_t partition, char *value, int size_bytes) {
    enum outcome outcome = PENDING;
    int64_t since_us = now_us();
    rd_kafka_resp_err_t refused =
        rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
                          RD_KAFKA_V_VALUE(value, (size_t)size_bytes), RD_KAFKA_V_OPAQUE(&outcome),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (refused) return -1;
    while (outcome == PENDING) rd_kafka_poll(rk, 100);
    return outcome == DELIVERED ? now_us() - since_us : -1;
}

/* --- latencies */

static int in_order(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t percentile(const int64_t *sorted, int64_t count, int per_mille) {
    return count ? sorted[count * per_mille / 1000] : -1;
}

static int report(int64_t count, int64_t lost, int64_t took_us, double bytes, int64_t *latencies, int64_t timed) {
    if (timed) qsort(latencies, (size_t)timed, sizeof *latencies, in_order);
    printf("{\"count\": %lld, \"failed\": %lld, \"seconds\": %.6f, \"bytes\": %.0f", (long long)count, (long long)lost,
           (double)took_us / 1e6, bytes);
    if (timed)
        printf(", \"p50_us\": %lld, \"p99_us\": %lld", (long long)percentile(latencies, timed, 500),
               (long long)percentile(latencies, timed, 990));
    printf("}\n");
    fflush(stdout);
    return lost > 0;
}

/* --- the four loads */

static int produce(char **a) {
    const char *brokers = a[0], *topic_name = a[1];
    int64_t count = atoll(a[2]);
    int size_bytes = atoi(a[3]);
    rd_kafka_t *rk = producer(brokers, a[4], LINGER_MS, a[5], a[6], count_delivery);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, topic_name, NULL);
    const struct rd_kafka_metadata *metadata; /* known before the clock starts */
    if (rd_kafka_metadata(rk, 0, topic, &metadata, 30000)) give_up("no metadata: is the broker there?");
    char *value = payload(size_bytes);
    int64_t since_us = now_us();
    for (int64_t i = 0; i < count; i++) {
        while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, value, (size_t)size_bytes, NULL, 0,
                                NULL))
            rd_kafka_poll(rk, 5); /* its queue is full */
        if (i % 1024 == 0) rd_kafka_poll(rk, 0);
    }
    rd_kafka_flush(rk, 120000);
    int64_t took_us = now_us() - since_us;
    return report(acknowledged, count - acknowledged, took_us, (double)acknowledged * size_bytes, NULL, 0);
}

static int consume(char **a) {
    const char *settings[] = {"bootstrap.servers", a[0], "group.id", "load", "enable.auto.commit", "false",
                              "queued.min.messages", "1000000", "queued.max.messages.kbytes", "1000000",
                              "fetch.message.max.bytes", "1048576", NULL};
    int32_t partitions = atoi(a[2]);
    int64_t wanted = atoll(a[3]), count = 0, first_us = 0;
    double bytes = 0;
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, settings, NULL);
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(partitions);
    for (int32_t index = 0; index < partitions; index++)
        rd_kafka_topic_partition_list_add(all, a[1], index)->offset = RD_KAFKA_OFFSET_BEGINNING;
    int64_t since_us = now_us();
    rd_kafka_assign(rk, all);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
    static rd_kafka_message_t *messages[MESSAGES_AT_A_TIME];
    while (count < wanted && now_us() - since_us < CONSUME_SECONDS_MAX * 1000000LL) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 1000, messages, MESSAGES_AT_A_TIME);
        for (ssize_t i = 0; i < got; i++) {
            if (!messages[i]->err) count++, bytes += (double)messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
        if (got > 0 && !first_us) first_us = now_us(); /* finding the leaders is not reading */
    }
    return report(count, count < wanted ? wanted - count : 0, now_us() - first_us, bytes, NULL, 0);
}

static int one(char **a) {
    int64_t count = atoll(a[2]), timed = 0, lost = 0, since_us = 0;
    int size_bytes = atoi(a[3]);
    rd_kafka_t *rk = producer(a[0], a[4], "0", "none", "false", tell_outcome);
    char *value = payload(size_bytes);
    int64_t *latencies = calloc((size_t)count, sizeof *latencies);
    for (int64_t i = -WARM_UP_MESSAGES; i < count; i++) {
        if (i == 0) since_us = now_us();
        int64_t latency_us = send_and_wait(rk, a[1], 0, value, size_bytes);
        if (i < 0) continue;
        if (latency_us < 0) lost++;
        else latencies[timed++] = latency_us;
    }
    return report(timed, lost, now_us() - since_us, (double)timed * size_bytes, latencies, timed);
}

struct sender {
    const char *brokers, *topic, *acks;
    int size_bytes;
    int64_t until_us, lost, timed, room;
    int64_t *latencies;
};

static void *send_until(void *argument) {
    struct sender *my = argument;
    rd_kafka_t *rk = producer(my->brokers, my->acks, "0", "none", "false", tell_outcome);
    char *value = payload(my->size_bytes);
    while (now_us() < my->until_us) {
        int64_t latency_us = send_and_wait(rk, my->topic, RD_KAFKA_PARTITION_UA, value, my->size_bytes);
        if (latency_us < 0) {
            my->lost++;
            continue;
        }
        if (my->timed == my->room) {
            my->room = my->room ? my->room * 2 : 4096;
            my->latencies = realloc(my->latencies, (size_t)my->room * sizeof *my->latencies);
        }
        my->latencies[my->timed++] = latency_us;
    }
    rd_kafka_destroy(rk);
    return NULL;
}

static int many(char **a) {
    int senders = atoi(a[5]);
    struct sender *all = calloc((size_t)senders, sizeof *all);
    pthread_t *threads = calloc((size_t)senders, sizeof *threads);
    int64_t since_us = now_us(), timed = 0, lost = 0;
    for (int i = 0; i < senders; i++) {
        all[i] = (struct sender){.brokers = a[0], .topic = a[1], .acks = a[4], .size_bytes = atoi(a[3]),
                                 .until_us = since_us + atoll(a[2]) * 1000000};
        pthread_create(&threads[i], NULL, send_until, &all[i]);
    }
    for (int i = 0; i < senders; i++) {
        pthread_join(threads[i], NULL);
        timed += all[i].timed, lost += all[i].lost;
    }
    int64_t took_us = now_us() - since_us, at = 0;
    int64_t *latencies = malloc((size_t)(timed + 1) * sizeof *latencies);
    for (int i = 0; i < senders; i++) {
        if (all[i].timed) memcpy(latencies + at, all[i].latencies, (size_t)all[i].timed * sizeof *latencies);
        at += all[i].timed;
    }
    return report(timed, lost, took_us, (double)timed * atoi(a[3]), latencies, timed);
}

int main(int argc, char **argv) {
    static const struct { const char *name; int arguments; int (*run)(char **); } LOADS[] = {
        {"produce", 7, produce}, {"consume", 4, consume}, {"one", 5, one}, {"many", 6, many}};
    for (size_t i = 0; argc > 1 && i < sizeof LOADS / sizeof *LOADS; i++)
        if (!strcmp(argv[1], LOADS[i].name) && argc - 2 == LOADS[i].arguments)
            _exit(LOADS[i].run(argv + 2)); /* at once: librdkafka's own end takes seconds and measures nothing */
    give_up("see load.c for what to say");
}
