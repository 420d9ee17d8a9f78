/**
 * Writes the record sets of java-*.hex: Kafka's own builders, every magic and codec. See README.md for how to run it.
 * Written against 4.3.1; for 3.9.1 the package `record.internal` is `record` (the command in README.md replaces it).
 */

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

public class WriteRecords {
    static final long T = 1_700_000_000_000L;

    static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static void print(String name, ByteBuffer bytes) {
        StringBuilder line = new StringBuilder(name).append(' ');
        ByteBuffer copy = bytes.duplicate();
        while (copy.hasRemaining()) line.append(String.format("%02x", copy.get()));
        System.out.println(line);
    }

    static void append(MemoryRecordsBuilder to, long offset, long time, String key, String value, Header... headers) {
        if (to.magic() < 2) to.appendWithOffset(offset, time, utf8(key), utf8(value));
        else to.appendWithOffset(offset, time, utf8(key), utf8(value), headers);
    }

    static void mixed(MemoryRecordsBuilder to, long first) {
        append(to, first, T, "k1", "v1", new RecordHeader("h1", utf8("x")), new RecordHeader("h2", null));
        append(to, first + 1, T + 5, null, "no key");
        append(to, first + 2, T + 2, "tombstone", null);
        append(to, first + 3, T + 70, "", "");
        append(to, first + 4, T + 70_000, "k1", "ab".repeat(150), new RecordHeader("\u00e4", new byte[0]));
    }

    static MemoryRecordsBuilder builder(int magic, CompressionType type, TimestampType stamp, long first) {
        return MemoryRecords.builder(
            ByteBuffer.allocate(1 << 20), (byte) magic, Compression.of(type).build(), stamp, first, T + 123_456);
    }

    public static void main(String[] arguments) {
        for (int magic = 0; magic <= 2; magic++) {
            for (CompressionType type : CompressionType.values()) {
                if (type == CompressionType.ZSTD && magic < 2) continue;
                String name = "magic" + magic + "." + type.name;
                for (long first : new long[] {0, 1000}) {
                    MemoryRecordsBuilder set = builder(magic, type, TimestampType.CREATE_TIME, first);
                    mixed(set, first);
                    print(name + ".from" + first, set.build().buffer());
                }
                if (magic > 0) {
                    MemoryRecordsBuilder set = builder(magic, type, TimestampType.LOG_APPEND_TIME, 1000);
                    mixed(set, 1000);
                    print(name + ".append_time", set.build().buffer());
                }
                if (type != CompressionType.NONE) {
                    MemoryRecordsBuilder set = builder(magic, type, TimestampType.CREATE_TIME, 0);
                    append(set, 0, T, null, "0123456789abcdef".repeat(4400));
                    print(name + ".long", set.build().buffer());
                }
            }
        }
        MemoryRecordsBuilder idempotent = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, Compression.NONE,
            TimestampType.CREATE_TIME, 0, T, 4_000_000_001L, (short) 3, 77, false, 5);
        mixed(idempotent, 0);
        print("magic2.idempotent", idempotent.build().buffer());
        MemoryRecordsBuilder transactional = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, Compression.NONE,
            TimestampType.CREATE_TIME, 0, T, 4_000_000_001L, (short) 3, 77, true, 5);
        mixed(transactional, 0);
        print("magic2.transactional", transactional.build().buffer());
        print("magic2.commit", MemoryRecords.withEndTransactionMarker(1005, T, 5, 4_000_000_001L, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 9)).buffer());
        print("magic2.abort", MemoryRecords.withEndTransactionMarker(1006, T, 5, 4_000_000_001L, (short) 3,
            new EndTransactionMarker(ControlRecordType.ABORT, 9)).buffer());
        print("magic2.leader_change", MemoryRecords.withLeaderChangeMessage(7, T, 5, ByteBuffer.allocate(4096),
            new LeaderChangeMessage().setLeaderId(1).setVoters(Collections.emptyList())).buffer());
        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 4_000_000_001L, (short) 3, 77, 1000, 1004, 5,
            TimestampType.CREATE_TIME, T, true, false);
        empty.flip();
        print("magic2.empty", empty);
        MemoryRecordsBuilder compacted = new MemoryRecordsBuilder(new ByteBufferOutputStream(4096), (byte) 2,
            Compression.NONE, TimestampType.CREATE_TIME, 1000, RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID,
            RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false, 5, 4096, T + 86_400_000);
        append(compacted, 1001, T + 5, "a", "1");
        append(compacted, 1003, T + 9, "b", null);
        compacted.overrideLastOffset(1004);
        print("magic2.delete_horizon", compacted.build().buffer());
    }
}
