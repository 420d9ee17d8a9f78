/**
 * Writes java-3.9.1-conversions.hex: what the broker makes of old message sets (LogValidator, `up.*`), and what it sends
 * to old clients (downConvert, `down.*`). Its argument is the hex file of WriteRecords. See README.md for how to run it.
 */

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

public class WriteConversions {
    static final long NOW = 1_700_000_123_456L;

    static class FixedTime implements Time {
        public long milliseconds() { return NOW; }
        public long nanoseconds() { return NOW * 1_000_000; }
        public void sleep(long ms) { }
        public void waitObject(Object o, java.util.function.Supplier<Boolean> condition, long deadline) { }
    }

    static class NoMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }

    static MemoryRecords records(String hex) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    }

    static void print(String name, ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        System.out.println(name + " " + HexFormat.of().formatHex(copy));
    }

    static void up(String name, String hex, TimestampType stamp) {
        MemoryRecords input = records(hex);
        CompressionType codec = input.firstBatch().compressionType();
        LogValidator validator = new LogValidator(input, new TopicPartition("t", 0), new FixedTime(), codec,
            Compression.of(codec).build(), false, RecordBatch.MAGIC_VALUE_V2, stamp, Long.MAX_VALUE, Long.MAX_VALUE,
            RecordBatch.NO_PARTITION_LEADER_EPOCH, AppendOrigin.CLIENT, MetadataVersion.latestProduction());
        print("up." + name + "." + stamp, validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(0), new NoMetrics(), BufferSupplier.NO_CACHING).validatedRecords.buffer());
    }

    static void down(String name, String hex, long firstOffset) {
        for (byte magic = 0; magic <= 1; magic++) {
            MemoryRecords converted = records(hex).downConvert(magic, firstOffset, Time.SYSTEM).records();
            print("down." + name + ".from" + firstOffset + ".to" + magic, converted.buffer());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> sets = new LinkedHashMap<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            if (!line.startsWith("#")) sets.put(line.split(" ")[0], line.split(" ")[1]);
        }
        for (Map.Entry<String, String> set : sets.entrySet()) {
            String name = set.getKey();
            if (name.endsWith(".from0") && !name.startsWith("magic2")) {
                up(name, set.getValue(), TimestampType.CREATE_TIME);
                up(name, set.getValue(), TimestampType.LOG_APPEND_TIME);
            }
            boolean stored = name.endsWith(".from1000") || name.endsWith(".append_time");
            if (stored && name.startsWith("magic2") && !name.contains("zstd")) {
                down(name, set.getValue(), 1000);
                down(name, set.getValue(), 1002);
            }
        }
        down("delete_horizon", sets.get("magic2.delete_horizon"), 1000);
        down("transaction", sets.get("magic2.transactional") + sets.get("magic2.commit"), 0);
        down("only_control", sets.get("magic2.commit") + sets.get("magic2.abort"), 0);
    }
}
