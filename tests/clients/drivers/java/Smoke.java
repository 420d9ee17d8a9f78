import org.apache.kafka.streams.tests.SmokeTestDriver;

import java.time.Duration;
import java.util.Map;
import java.util.Set;

/** The driver of Kafka Streams' smoke test, with less to do than its own main: bootstrap, keys, records per key, seconds. */
public final class Smoke {
    private Smoke() { }

    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        int keys = Integer.parseInt(arguments[1]);
        int records = Integer.parseInt(arguments[2]);
        Map<String, Set<Integer>> data =
            SmokeTestDriver.generate(bootstrap, keys, records, Duration.ofSeconds(Long.parseLong(arguments[3])));
        SmokeTestDriver.verify(bootstrap, data, records, true);
    }
}
