// Answers questions about access rules with Kafka's own StandardAuthorizer. One line in, one line out, but for `new`
// and `rule`, fields are separated by tabs and numbers are Kafka's codes:
//   new   super users, allow.everyone.if.no.acl.found   an authorizer without rules
//   rule  type, name, pattern, principal, host, operation, permission
//   ask   principal, host, operation, type, name         1 allowed, 0 denied
//   any   principal, host, operation, type               1 allowed, 0 denied
//   find  type, name, pattern, principal, host, operation, permission ("-" is null)   the rules found, sorted
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

public class AuthorizerOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] field = line.split("\t", -1);
            switch (field[0]) {
                case "new" -> authorizer = authorizer(field[1], field[2]);
                case "rule" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    type(field[1]), field[2], pattern(field[3]), field[4], field[5],
                    operation(field[6]), permission(field[7])));
                case "ask" -> out.println(number(authorizer.authorize(caller(field[1], field[2]), List.of(new Action(
                    operation(field[3]), new ResourcePattern(type(field[4]), field[5], PatternType.LITERAL),
                    1, true, true))).get(0)));
                case "any" -> out.println(number(authorizer.authorizeByResourceType(
                    caller(field[1], field[2]), operation(field[3]), type(field[4]))));
                case "find" -> out.println(found(authorizer, field));
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    static StandardAuthorizer authorizer(String superUsers, String isOpen) {
        StandardAuthorizer made = new StandardAuthorizer();
        made.configure(Map.of("node.id", "1", "super.users", superUsers, "allow.everyone.if.no.acl.found", isOpen));
        made.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        made.start((AuthorizerServerInfo) Proxy.newProxyInstance(
            AuthorizerOracle.class.getClassLoader(), new Class<?>[] {AuthorizerServerInfo.class},
            (proxy, method, given) -> List.of()));
        made.completeInitialLoad();
        return made;
    }

    static AuthorizableRequestContext caller(String principal, String host) throws Exception {
        KafkaPrincipal who = SecurityUtils.parseKafkaPrincipal(principal);
        InetAddress address = InetAddress.getByName(host);
        return (AuthorizableRequestContext) Proxy.newProxyInstance(
            AuthorizerOracle.class.getClassLoader(), new Class<?>[] {AuthorizableRequestContext.class},
            (proxy, method, given) -> switch (method.getName()) {
                case "principal" -> who;
                case "clientAddress" -> address;
                case "requestType", "requestVersion", "correlationId" -> 0;
                case "listenerName", "clientId" -> "test";
                default -> null;
            });
    }

    static String found(StandardAuthorizer authorizer, String[] field) {
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(type(field[1]), text(field[2]), pattern(field[3])),
            new AccessControlEntryFilter(
                text(field[4]), text(field[5]), operation(field[6]), permission(field[7])));
        List<String> rules = new ArrayList<>();
        for (AclBinding each : authorizer.acls(filter)) {
            rules.add(each.pattern().resourceType().code() + " " + each.pattern().name() + " "
                + each.pattern().patternType().code() + " " + each.entry().principal() + " " + each.entry().host() + " "
                + each.entry().operation().code() + " " + each.entry().permissionType().code());
        }
        Collections.sort(rules);
        return String.join(";", rules);
    }

    static int number(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? 1 : 0;
    }

    static String text(String field) {
        return field.equals("-") ? null : field;
    }

    static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    static PatternType pattern(String code) {
        return PatternType.fromCode(Byte.parseByte(code));
    }

    static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    static AclPermissionType permission(String code) {
        return AclPermissionType.fromCode(Byte.parseByte(code));
    }
}
