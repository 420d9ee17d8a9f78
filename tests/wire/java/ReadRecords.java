/**
 * Reads record sets as Kafka's client does. Takes lines `name hex`, and prints a line for each record: name, offset,
 * timestamp, key, value and headers in hex (`-` is null), after every checksum was verified.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

public class ReadRecords {
    static String hex(ByteBuffer bytes) {
        if (bytes == null) return "-";
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return HexFormat.of().formatHex(copy);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ");
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(parts[1]));
            StringBuilder printed = new StringBuilder();
            for (RecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
                batch.ensureValid();
                for (Record record : batch) {
                    record.ensureValid();
                    printed.append(parts[0]).append(' ').append(record.offset()).append(' ').append(record.timestamp());
                    printed.append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
                    for (Header header : record.headers()) {
                        byte[] key = header.key().getBytes(StandardCharsets.UTF_8);
                        byte[] value = header.value();
                        printed.append(' ').append(hex(ByteBuffer.wrap(key)));
                        printed.append('=').append(value == null ? "-" : hex(ByteBuffer.wrap(value)));
                    }
                    printed.append('\n');
                }
            }
            System.out.print(printed);
        }
    }
}
