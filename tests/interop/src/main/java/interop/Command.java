package interop;

/** A command. It gets the words after its name, and returns its result. */
interface Command {
    Object run(String[] words) throws Exception;
}
