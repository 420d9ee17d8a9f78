/** Prints Kafka's error codes: number, name, whether the client retries, whether it fetches metadata first. */

import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class ListErrors {
    public static void main(String[] arguments) {
        for (Errors each : Errors.values()) {
            boolean retriable = each.exception() instanceof RetriableException;
            boolean refreshes = each.exception() instanceof InvalidMetadataException;
            System.out.println(each.code() + " " + each.name() + " " + retriable + " " + refreshes);
        }
    }
}
