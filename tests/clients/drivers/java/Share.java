import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group, until it is killed. It releases a value that begins with "release" at its first delivery,
 * rejects one that begins with "reject", and accepts everything else.
 *
 *     java Share BOOTSTRAP TOPIC GROUP
 *     got VALUE COUNT      a delivery
 *     done VALUE TYPE      its acknowledgement was confirmed
 */
final class Share {
    private Share() {}

    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "20");
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(args[1]));
            while (true) {
                List<String> decided = new ArrayList<>();
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    int count = record.deliveryCount().get();
                    System.out.println("got " + record.value() + " " + count);
                    AcknowledgeType type = AcknowledgeType.ACCEPT;
                    if (record.value().startsWith("reject")) {
                        type = AcknowledgeType.REJECT;
                    } else if (record.value().startsWith("release") && count == 1) {
                        type = AcknowledgeType.RELEASE;
                    }
                    consumer.acknowledge(record, type);
                    decided.add("done " + record.value() + " " + type);
                }
                boolean failed = consumer.commitSync().values().stream().anyMatch(each -> each.isPresent());
                if (!failed) {
                    decided.forEach(System.out::println);
                }
                System.out.flush();
            }
        }
    }
}
