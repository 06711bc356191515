import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.CQL3Type;
import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.cql3.ColumnSpecification;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.cql3.QualifiedName;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.Relation;
import org.apache.cassandra.cql3.Term;
import org.apache.cassandra.cql3.UTName;
import org.apache.cassandra.cql3.WhereClause;
import org.apache.cassandra.cql3.functions.FunctionName;
import org.apache.cassandra.cql3.selection.RawSelector;
import org.apache.cassandra.cql3.statements.AuthenticationStatement;
import org.apache.cassandra.cql3.statements.AuthorizationStatement;
import org.apache.cassandra.cql3.statements.BatchStatement;
import org.apache.cassandra.cql3.statements.DeleteStatement;
import org.apache.cassandra.cql3.statements.DescribeStatement;
import org.apache.cassandra.cql3.statements.ModificationStatement;
import org.apache.cassandra.cql3.statements.SelectStatement;
import org.apache.cassandra.cql3.statements.TruncateStatement;
import org.apache.cassandra.cql3.statements.UpdateStatement;
import org.apache.cassandra.cql3.statements.UseStatement;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Says what Cassandra's own parser makes of statements: NUL-separated statements on standard
 * input, one JSON object a line on standard output. An input of the form "\u0001type\u0001literal"
 * instead asks for the bytes of a literal in a column of that type.
 */
public final class CqlOracle
{
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception
    {
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        // Cassandra logs to standard output if left to itself.
        System.setOut(System.err);
        DatabaseDescriptor.clientInitialization();
        InputStream in = new java.io.BufferedInputStream(System.in, 1 << 16);
        ByteArrayOutputStream item = new ByteArrayOutputStream();
        for (int b = in.read(); b >= 0; b = in.read())
        {
            if (b != 0)
            {
                item.write(b);
                continue;
            }
            String text = item.toString("UTF-8");
            item.reset();
            out.println(JSON.writeValueAsString(text.startsWith("\u0001") ? encode(text) : describe(text)));
        }
        out.flush();
    }

    private static ObjectNode encode(String question)
    {
        ObjectNode answer = JSON.createObjectNode();
        String[] parts = question.split("\u0001", 3);
        try
        {
            CQL3Type type = CQL3Type.Native.valueOf(parts[1].toUpperCase(Locale.ROOT));
            Term.Raw raw = CQLFragmentParser.parseAnyUnhandled(CqlParser::term, parts[2]);
            ColumnSpecification column =
                new ColumnSpecification("ks", "t", new ColumnIdentifier("c", true), type.getType());
            ByteBuffer bytes = raw.prepare("ks", column).bindAndGet(QueryOptions.DEFAULT);
            answer.put("ok", true);
            answer.put("bytes", bytes == null ? null : ByteBufferUtil.bytesToHex(bytes));
        }
        catch (Exception | AssertionError e)
        {
            answer.put("ok", false);
            answer.put("error", String.valueOf(e.getMessage()));
        }
        return answer;
    }

    private static ObjectNode describe(String text)
    {
        ObjectNode answer = JSON.createObjectNode();
        try
        {
            CQLStatement.Raw raw = CQLFragmentParser.parseAnyUnhandled(CqlParser::query, text);
            ArrayNode names = answer.putArray("markers");
            for (Object name : (List<?>) get(get(raw, "bindVariables"), "variableNames"))
                names.add(name == null ? null : name.toString());
            statement(raw, answer);
            answer.put("ok", true);
        }
        catch (Exception | AssertionError | StackOverflowError e)
        {
            answer.removeAll();
            answer.put("ok", false);
            answer.put("error", String.valueOf(e.getMessage()));
            // The parser refuses with its own exceptions; anything else is this program's mistake.
            if (e instanceof ReflectiveOperationException || e instanceof IllegalStateException)
                answer.put("broken", e.toString());
        }
        return answer;
    }

    private static void statement(CQLStatement.Raw raw, ObjectNode out) throws Exception
    {
        if (raw instanceof SelectStatement.RawStatement)
        {
            out.put("kind", "Select");
            table((QualifiedName) get(raw, "qualifiedName"), out);
            select((SelectStatement.RawStatement) raw, out);
        }
        else if (raw instanceof ModificationStatement.Parsed)
            modification((ModificationStatement.Parsed) raw, out);
        else if (raw instanceof BatchStatement.Parsed)
        {
            out.put("kind", "Batch");
            out.put("batch", get(raw, "type").toString());
            attributes(get(raw, "attrs"), out);
            ArrayNode inner = out.putArray("inner");
            for (Object statement : (List<?>) get(raw, "parsedStatements"))
                modification((ModificationStatement.Parsed) statement, inner.addObject());
        }
        else if (raw instanceof UseStatement)
        {
            out.put("kind", "Use");
            out.put("keyspace", (String) get(raw, "keyspace"));
        }
        else if (raw instanceof TruncateStatement)
        {
            out.put("kind", "Truncate");
            table((QualifiedName) get(raw, "qualifiedName"), out);
        }
        else if (raw instanceof DescribeStatement)
            out.put("kind", "Describe");
        else if (raw instanceof AuthenticationStatement || raw instanceof AuthorizationStatement)
            out.put("kind", "Auth");
        else if (raw.getClass().getName().contains(".schema."))
        {
            out.put("kind", "Ddl");
            definition(raw, out);
        }
        else
            throw new IllegalStateException("unknown statement " + raw.getClass());
    }

    private static void definition(CQLStatement.Raw raw, ObjectNode out) throws Exception
    {
        for (String field : new String[] { "viewName", "tableName", "name", "aggregateName", "keyspaceName" })
        {
            if (find(raw.getClass(), field) == null)
                continue;
            Object name = get(raw, field);
            if (name instanceof String)
                out.put("keyspace", (String) name);
            else if (name instanceof UTName)
                out.put("keyspace", ((UTName) name).getKeyspace());
            else if (name instanceof FunctionName)
                out.put("keyspace", ((FunctionName) name).keyspace);
            else if (raw.getClass().getName().contains("DropIndex"))
                out.put("keyspace", ((QualifiedName) name).getKeyspace());
            else
                table((QualifiedName) name, out);
            return;
        }
        throw new IllegalStateException("no name in " + raw.getClass());
    }

    private static void table(QualifiedName name, ObjectNode out)
    {
        out.put("keyspace", name.hasKeyspace() ? name.getKeyspace() : null);
        out.put("table", name.getName());
    }

    private static void attributes(Object attributes, ObjectNode out) throws Exception
    {
        out.put("timestamp", get(attributes, "timestamp") != null);
        out.put("ttl", get(attributes, "timeToLive") != null);
    }

    private static void modification(ModificationStatement.Parsed raw, ObjectNode out) throws Exception
    {
        table((QualifiedName) get(raw, "qualifiedName"), out);
        attributes(get(raw, "attrs"), out);
        out.put("lwt", (boolean) get(raw, "ifNotExists") || (boolean) get(raw, "ifExists")
                       || !((List<?>) get(raw, "conditions")).isEmpty());
        out.put("repeatable", isRepeatable(raw));
        out.put("grows", !instances(raw, "Operation$Addition", "Operation$Substraction", "Operation$Prepend").isEmpty());
        if (raw instanceof UpdateStatement.ParsedInsert)
        {
            out.put("kind", "Insert");
            ArrayNode equalities = out.putArray("equalities");
            List<?> columns = (List<?>) get(raw, "columnNames");
            List<?> values = (List<?>) get(raw, "columnValues");
            for (int i = 0; i < Math.min(columns.size(), values.size()); i++)
                equalities.addArray().add(columns.get(i).toString()).add(term(values.get(i)));
        }
        else if (raw instanceof UpdateStatement.ParsedInsertJson)
        {
            out.put("kind", "Insert");
            out.putArray("equalities");
        }
        else
        {
            out.put("kind", raw instanceof DeleteStatement.Parsed ? "Delete" : "Update");
            relations((WhereClause) get(raw, "whereClause"), out);
        }
    }

    private static boolean isRepeatable(ModificationStatement.Parsed raw) throws Exception
    {
        for (Object call : instances(raw, "functions.FunctionCall$Raw"))
            if (!isOperator((FunctionName) get(call, "name")))
                return false;
        for (Object element : instances(raw, "Operation$SetElement"))
            if (term(get(element, "selector")).matches("other|INTEGER:.*|[0-9]+"))
                return false;
        return instances(raw, "Operation$Addition", "Operation$Substraction", "Operation$Prepend",
                         "Operation$ElementDeletion").isEmpty();
    }

    /** Arithmetic and casts are functions too for the parser. */
    private static boolean isOperator(FunctionName name)
    {
        return "system".equals(name.keyspace) && (name.name.startsWith("_") || name.name.startsWith("cast_as_"));
    }

    private static void select(SelectStatement.RawStatement raw, ObjectNode out) throws Exception
    {
        relations(raw.whereClause, out);
        out.put("distinct", raw.parameters.isDistinct);
        out.put("json", raw.parameters.isJson);
        out.put("filtering", raw.parameters.allowFiltering);
        out.put("grouped", !raw.parameters.groups.isEmpty());
        out.put("limit", raw.limit == null ? null : term(raw.limit));
        out.put("perPartitionLimit", raw.perPartitionLimit == null ? null : term(raw.perPartitionLimit));
        ArrayNode orderings = out.putArray("orderings");
        for (Object ordering : raw.parameters.orderings)
        {
            Object expression = get(ordering, "expression");
            boolean ann = expression.getClass().getSimpleName().equals("Ann");
            orderings.add((ann ? "ANN " : "") + get(expression, ann ? "columnId" : "column") + " " + get(ordering, "direction"));
        }
        ArrayNode columns = out.putArray("columns");
        for (RawSelector selector : raw.selectClause)
        {
            boolean plain = selector.selectable.getClass().getSimpleName().equals("RawIdentifier");
            String name = null;
            if (plain)
            {
                name = (String) get(selector.selectable, "text");
                if (!(boolean) get(selector.selectable, "quoted"))
                    name = name.toLowerCase(Locale.US);
            }
            columns.addArray().add(name).add(selector.alias == null ? null : selector.alias.toString());
        }
        boolean calls = !instances(raw.selectClause, "WritetimeOrTTL$Raw").isEmpty();
        for (Object call : instances(raw.selectClause, "FunctionCall$Raw"))
            calls |= !isOperator((FunctionName) get(call, "name"));
        for (Object call : instances(raw.selectClause, "WithFunction$Raw"))
            calls |= !isOperator((FunctionName) get(call, "functionName"));
        out.put("calls", calls);
    }

    private static void relations(WhereClause where, ObjectNode out) throws Exception
    {
        ArrayNode equalities = out.putArray("equalities");
        ArrayNode tokens = out.putArray("tokens");
        ArrayNode ins = out.putArray("ins");
        ArrayNode ranges = out.putArray("ranges");
        boolean others = !where.expressions.isEmpty();
        for (Relation relation : where.relations)
        {
            String operator = relation.operator().toString();
            boolean comparison = List.of("=", "<", "<=", ">", ">=", "!=").contains(operator);
            boolean several = relation.isMultiColumn() || relation.onToken();
            Object columns = several ? get(relation, "entities") : List.of(get(relation, "entity"));
            if (!several && get(relation, "mapKey") != null)
                others = true;
            else if (relation.isIN())
            {
                ObjectNode in = ins.addObject();
                names(columns, in.putArray("columns"));
                List<? extends Term.Raw> values = relation.getInValues();
                if (values == null)
                    in.put("marker", term(several ? get(relation, "inMarker") : relation.getValue()));
                else
                    terms(values, in.putArray("terms"));
            }
            else if (!comparison)
                others = true;
            else if (relation.onToken())
            {
                ObjectNode token = tokens.addObject();
                names(columns, token.putArray("columns"));
                token.put("op", operator).put("term", term(relation.getValue()));
            }
            else if (!several && operator.equals("="))
                equalities.addArray().add(((List<?>) columns).get(0).toString()).add(term(relation.getValue()));
            else
            {
                ObjectNode range = ranges.addObject();
                names(columns, range.putArray("columns"));
                range.put("op", operator);
                Object value = relation.getValue();
                boolean tuple = value.getClass().getName().endsWith("Tuples$Literal") && several;
                terms(tuple ? (List<?>) get(value, "elements") : List.of(value), range.putArray("terms"));
            }
        }
        out.put("otherRelations", others);
    }

    private static void names(Object columns, ArrayNode out)
    {
        for (Object column : (List<?>) columns)
            out.add(column.toString());
    }

    private static void terms(List<?> terms, ArrayNode out) throws Exception
    {
        for (Object term : terms)
            out.add(term(term));
    }

    /** A marker's index, TYPE:text of a literal, NULL, or other. */
    private static String term(Object raw) throws Exception
    {
        if (find(raw.getClass(), "bindIndex") != null)
            return get(raw, "bindIndex").toString();
        if (raw.getClass().getName().endsWith("Constants$NullLiteral"))
            return "NULL";
        if (!raw.getClass().getName().endsWith("Constants$Literal"))
            return "other";
        String type = get(raw, "type").toString();
        String text = (String) get(raw, "text");
        switch (type)
        {
            case "INTEGER":
                return "INTEGER:" + new BigInteger(text);
            case "HEX":
                return text.length() % 2 == 1 ? "other" : "HEX:" + text.substring(2).toLowerCase(Locale.ROOT);
            case "BOOLEAN":
            case "UUID":
                return type + ":" + text.toLowerCase(Locale.ROOT);
            default:
                return type + ":" + text;
        }
    }

    /** All objects of these classes that can be reached within the parser's own structures. */
    private static List<Object> instances(Object root, String... suffixes) throws Exception
    {
        List<Object> found = new java.util.ArrayList<>();
        Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        Deque<Object> left = new ArrayDeque<>();
        left.push(root);
        while (!left.isEmpty())
        {
            Object object = left.pop();
            if (!seen.add(object))
                continue;
            if (object instanceof Iterable)
            {
                for (Object element : (Iterable<?>) object)
                    if (element != null)
                        left.push(element);
                continue;
            }
            if (object instanceof Map)
            {
                left.push(((Map<?, ?>) object).keySet());
                left.push(((Map<?, ?>) object).values());
                continue;
            }
            String name = object.getClass().getName();
            for (String suffix : suffixes)
                if (name.endsWith(suffix))
                    found.add(object);
            boolean own = name.startsWith("org.apache.cassandra.cql3.") || name.startsWith("org.apache.cassandra.utils.Pair");
            if (!own || object instanceof Enum)
                continue;
            for (Class<?> c = object.getClass(); c != null && c != Object.class; c = c.getSuperclass())
                for (Field field : c.getDeclaredFields())
                {
                    if (Modifier.isStatic(field.getModifiers()) || field.getType().isPrimitive())
                        continue;
                    field.setAccessible(true);
                    Object value = field.get(object);
                    if (value != null)
                        left.push(value);
                }
        }
        return found;
    }

    private static Field find(Class<?> start, String name)
    {
        for (Class<?> c = start; c != null; c = c.getSuperclass())
            for (Field field : c.getDeclaredFields())
                if (field.getName().equals(name))
                    return field;
        return null;
    }

    private static Object get(Object object, String name) throws Exception
    {
        Field field = find(object.getClass(), name);
        if (field == null)
            throw new NoSuchFieldException(object.getClass() + " has no " + name);
        field.setAccessible(true);
        return field.get(object);
    }
}
