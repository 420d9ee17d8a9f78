import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;

import static java.nio.charset.StandardCharsets.UTF_8;

/** The Java client, told what to do by the lines of tests/clients/driver.py. Compiled against any kafka-clients jar. */
public final class Driver {
    private static final int SECONDS_MAX = 60;
    private static final int SESSION_MS = 300_000; // longer than a test waits: who leaves must be gone by leaving
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final Map<String, Member> members = new HashMap<>();

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver(arguments[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        PrintStream replies = new PrintStream(System.out, true, UTF_8);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            replies.println(driver.answer(JSON.readTree(line)));
        }
        System.exit(0); // members that nobody told to leave do not keep the process
    }

    private ObjectNode answer(JsonNode request) {
        ObjectNode reply = JSON.createObjectNode();
        try {
            switch (request.get("op").asText()) {
                case "produce" -> produce(request, reply.putArray("offsets"));
                case "consume" -> consume(request, reply.putArray("records"));
                case "join" -> members.put(name(request), new Member(request));
                case "received" -> members.get(name(request)).received(reply.putArray("records"));
                case "assignment" -> members.get(name(request)).assignment(reply.putArray("partitions"));
                case "commit" -> members.get(name(request)).commit();
                case "leave" -> members.remove(name(request)).leave();
                default -> throw new IllegalArgumentException("no such op");
            }
            return reply;
        } catch (Exception failure) {
            return JSON.createObjectNode().put("error", failure.toString());
        }
    }

    private void produce(JsonNode request, ArrayNode offsets) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "acks", "all",
            "compression.type", request.get("codec").asText(),
            "enable.idempotence", request.get("idempotent").asBoolean(),
            "linger.ms", 20,
            "delivery.timeout.ms", SECONDS_MAX * 1000);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : request.get("records")) {
                sent.add(producer.send(toRecord(request.get("topic").asText(), record)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata where = future.get(SECONDS_MAX, TimeUnit.SECONDS);
                offsets.addArray().add(where.partition()).add(where.offset());
            }
        }
    }

    private static ProducerRecord<String, String> toRecord(String topic, JsonNode record) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), header.get(1).asText().getBytes(UTF_8)));
        }
        Integer partition = record.get("partition").isNull() ? null : record.get("partition").asInt();
        Long timestamp = record.get("timestamp_ms").isNull() ? null : record.get("timestamp_ms").asLong();
        String key = text(record.get("key"));
        return new ProducerRecord<>(topic, partition, timestamp, key, text(record.get("value")), headers);
    }

    private void consume(JsonNode request, ArrayNode records) throws TimeoutException {
        try (var consumer = consumer(Map.of())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(request.get("topic").asText())
                .forEach(info -> partitions.add(new TopicPartition(info.topic(), info.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
            while (records.size() < request.get("count").asInt()) {
                if (System.nanoTime() > deadline) {
                    throw new TimeoutException("only " + records.size() + " records after " + SECONDS_MAX + " s");
                }
                append(records, consumer.poll(Duration.ofSeconds(1)));
            }
        }
    }

    private KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void append(ArrayNode seen, ConsumerRecords<String, String> polled) {
        for (ConsumerRecord<String, String> record : polled) {
            ObjectNode one = seen.addObject()
                .put("partition", record.partition())
                .put("offset", record.offset())
                .put("key", record.key())
                .put("value", record.value())
                .put("timestamp_ms", record.timestamp());
            ArrayNode headers = one.putArray("headers");
            for (Header header : record.headers()) {
                headers.addArray().add(header.key()).add(new String(header.value(), UTF_8));
            }
        }
    }

    private static String name(JsonNode request) {
        return request.get("member").asText();
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    /** A member of a group that polls in a thread of its own. */
    private final class Member {
        // A KafkaConsumer serves one thread at a time. A fair lock, since the polling thread takes it again at once.
        private final ReentrantLock turn = new ReentrantLock(true);
        private final KafkaConsumer<String, String> consumer;
        private final ArrayNode records = JSON.createArrayNode();
        private final Thread poller = new Thread(this::poll);
        private volatile boolean stopping;
        private RuntimeException failure;

        Member(JsonNode request) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("group.id", request.get("group").asText());
            if ("consumer".equals(System.getenv("CHRONIK_GROUP_PROTOCOL"))) {
                settings.put("group.protocol", "consumer"); // then the coordinator decides about sessions
            } else {
                settings.put("session.timeout.ms", SESSION_MS);
                settings.put("heartbeat.interval.ms", 100);
            }
            consumer = consumer(settings);
            consumer.subscribe(List.of(request.get("topic").asText()));
            poller.setDaemon(true);
            poller.start();
        }

        private void poll() {
            while (!stopping && failure == null) {
                inTurn(() -> {
                    try {
                        append(records, consumer.poll(Duration.ofMillis(50)));
                    } catch (RuntimeException error) {
                        failure = error;
                    }
                });
            }
        }

        void received(ArrayNode into) {
            inTurn(() -> into.addAll(records));
        }

        void assignment(ArrayNode into) {
            inTurn(() -> consumer.assignment().forEach(owned -> into.add(owned.partition())));
        }

        void commit() {
            inTurn(consumer::commitSync);
        }

        void leave() throws InterruptedException {
            stopping = true;
            poller.join();
            inTurn(consumer::close);
        }

        /** Told to whoever asks next, a poll that failed is not repeated. */
        private void inTurn(Runnable work) {
            turn.lock();
            try {
                if (failure != null) {
                    throw failure;
                }
                work.run();
            } finally {
                turn.unlock();
            }
        }
    }
}
