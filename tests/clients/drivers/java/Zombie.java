import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

import java.util.Map;

/** What zombie.py does: half of a transaction, a line to wait for, the other half, and the commit. */
public final class Zombie {
    private Zombie() { }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[3]);
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "transactional.id", arguments[2]);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        producer.beginTransaction();
        for (int number = 0; number < count / 2; number++)
            producer.send(new ProducerRecord<>(topic, Integer.toString(number)));
        producer.flush();
        System.out.println("written");
        System.in.read();
        try {
            for (int number = count / 2; number < count; number++)
                producer.send(new ProducerRecord<>(topic, Integer.toString(number)));
            producer.commitTransaction();
        } catch (KafkaException fault) {
            System.out.println(fault);
            System.exit(1);
        }
        producer.close();
    }
}
