// Asks Kafka's own config definitions. Input: one line "topic|broker|group TAB key TAB value" per question, in which the
// value is hexadecimal. Output per line: "ok" or "no". Before that, one line "def TAB kind TAB name TAB type TAB default"
// per known key, and "synonym TAB name TAB broker key TAB factor", then an empty line.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigOracle {
    public static void main(String[] arguments) throws Exception {
        for (ConfigDef.ConfigKey key : LogConfig.configKeys().values()) define("topic", key);
        for (ConfigDef.ConfigKey key : GroupConfig.CONFIG_DEF.configKeys().values()) define("group", key);
        Map<String, ConfigDef.ConfigKey> broker = DynamicConfig.Broker.configKeys();
        for (String name : DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS)
            if (broker.containsKey(name)) define("broker", broker.get(name));
        for (Map.Entry<String, java.util.List<ConfigSynonym>> entry
                : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.entrySet())
            for (ConfigSynonym synonym : entry.getValue())
                System.out.println(String.join("\t", "synonym", entry.getKey(), synonym.name(),
                        synonym.converter().apply("1")));
        System.out.println();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = questions.readLine()) != null;) {
            String[] parts = line.split("\t", -1);
            String value = new String(HexFormat.of().parseHex(parts[2]), StandardCharsets.UTF_8);
            System.out.println(accepts(parts[0], parts[1], value) ? "ok" : "no");
        }
    }

    private static void define(String kind, ConfigDef.ConfigKey key) {
        String byDefault = key.defaultValue == null ? "" : ConfigDef.convertToString(key.defaultValue, key.type);
        System.out.println(String.join("\t", "def", kind, key.name, key.type.name(), byDefault,
                key.internalConfig ? "internal" : ""));
    }

    private static boolean accepts(String kind, String name, String value) {
        try {
            if (kind.equals("topic")) {
                LogConfig.validate(Map.of(name, value));
            } else if (kind.equals("group")) {
                new ConfigDef(GroupConfig.CONFIG_DEF).parse(Map.of(name, value));
            } else {
                Properties properties = new Properties();
                properties.setProperty(name, value);
                DynamicConfig.Broker.validate(properties);
            }
            return true;
        } catch (Exception refused) {
            return false;
        }
    }
}
