// Answers what Kafka's own client would do: `murmur2 HEX`, or `range|roundrobin TOPICS MEMBERS`, one question a line.
// TOPICS is name=count,...; MEMBERS is id:instance:topic+topic;... with - for no instance. See ../client_oracle.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

public class ClientOracle {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null && !line.isEmpty(); ) {
            String[] words = line.split(" ", -1);
            System.out.println(words[0].equals("murmur2") ? murmur2(words[1]) : assign(words));
        }
    }

    static String murmur2(String hex) {
        return Integer.toString(Utils.murmur2(HexFormat.of().parseHex(hex)));
    }

    static String assign(String[] words) {
        Map<String, Integer> counts = new HashMap<>();
        for (String topic : words[1].split(",")) {
            counts.put(topic.split("=")[0], Integer.parseInt(topic.split("=")[1]));
        }
        Map<String, Subscription> members = new HashMap<>();
        for (String member : words[2].split(";")) {
            String[] parts = member.split(":", -1);
            List<String> topics = parts[2].isEmpty() ? List.of() : List.of(parts[2].split("\\+"));
            var subscription = new Subscription(topics);
            if (!parts[1].equals("-")) {
                subscription.setGroupInstanceId(java.util.Optional.of(parts[1]));
            }
            members.put(parts[0], subscription);
        }
        AbstractPartitionAssignor assignor = words[0].equals("range") ? new RangeAssignor() : new RoundRobinAssignor();
        var assigned = new TreeMap<String, List<TopicPartition>>(assignor.assign(counts, members));
        List<String> told = new ArrayList<>();
        for (var entry : assigned.entrySet()) {
            List<String> partitions = new ArrayList<>();
            for (TopicPartition each : entry.getValue()) {
                partitions.add(each.topic() + "/" + each.partition());
            }
            partitions.sort(null);
            told.add(entry.getKey() + ":" + String.join("+", partitions));
        }
        return String.join(";", told);
    }
}
