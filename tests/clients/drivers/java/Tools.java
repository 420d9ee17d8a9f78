import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.Exit;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Kafka's command line tools, many runs in one JVM: {"tool": "TopicCommand", "arguments": ["--list", ...], "input": ""}
 * on a line is answered by {"exit": 0, "output": "what it printed, errors among it"}.
 */
public final class Tools {
    // Where releases keep them.
    private static final List<String> PACKAGES = List.of(
        "org.apache.kafka.tools", "org.apache.kafka.tools.consumer", "org.apache.kafka.tools.consumer.group",
        "org.apache.kafka.tools.reassign", "org.apache.kafka.tools.streams", "kafka.admin", "kafka.tools");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ByteArrayOutputStream printed = new ByteArrayOutputStream();
    private static ObjectNode reply; // of the tool that runs, once it has ended

    private Tools() { }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        PrintStream replies = new PrintStream(System.out, true, UTF_8);
        // Set once: Scala's Console keeps the stream that it finds first.
        PrintStream printer = new PrintStream(printed, true, UTF_8);
        System.setOut(printer);
        System.setErr(printer);
        Exit.setExitProcedure((status, message) -> {
            end(status);
            throw new Ended();
        });
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            printed.reset();
            reply = null;
            run(JSON.readTree(line));
            replies.println(reply);
        }
        Runtime.getRuntime().halt(0); // tools left their threads and hooks behind
    }

    private static void run(JsonNode request) throws ReflectiveOperationException {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(one -> arguments.add(one.asText()));
        System.setIn(new ByteArrayInputStream(request.get("input").asText().getBytes(UTF_8)));
        try {
            find(request.get("tool").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
            end(0);
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace();
            end(1);
        }
    }

    /** The first end counts: some tools catch what is thrown in place of the exit, complain, and exit again. */
    private static void end(int status) {
        if (reply == null) {
            reply = JSON.createObjectNode().put("exit", status).put("output", printed.toString(UTF_8));
        }
    }

    private static Class<?> find(String tool) throws ClassNotFoundException {
        for (String one : PACKAGES) {
            try {
                return Class.forName(one + "." + tool);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(tool);
    }

    /** Thrown where a tool would have ended the process. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;
    }
}
